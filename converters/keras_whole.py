"""A whole model: its config, its arrays, its file. Keras is asked only where classes are not in the table."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rnnbridge.catalogue import CarriedLayer
from rnnbridge.converters.keras_arranged import arranged
from rnnbridge.converters.keras_blocks import Found
from rnnbridge.converters.keras_checks import check_arrays, check_graph
from rnnbridge.converters.keras_compose import (
    CellArrays,
    classed_again,
    classed_from_layered,
    layered_again,
    layered_from_classed,
)
from rnnbridge.converters.keras_downgrade import Downgrade
from rnnbridge.converters.keras_hdf5 import WHOLE_MODEL, LayeredFile, LayerGroup, layered_tree
from rnnbridge.converters.keras_ready import Ready
from rnnbridge.converters.keras_scaled import scaled
from rnnbridge.converters.keras_source import Carried
from rnnbridge.converters.keras_target import Target
from rnnbridge.converters.keras_upgrade import Upgrade
from rnnbridge.converters.keras_v3 import CONFIG, METADATA, WEIGHTS, ClassedFile
from rnnbridge.converters.keras_version import Version
from rnnbridge.errors import Incompatible
from rnnbridge.files.hdf5 import Group, hdf5_bytes
from rnnbridge.files.zip import write_members
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Bundle


@dataclass(frozen=True)
class Model:
    """A model's config as its target takes it, what became of every layer, the new names, whose arrays are scaled."""

    config: dict[str, Any]
    layers: tuple[CarriedLayer, ...]
    renamed: Mapping[str, str]
    scaled: Collection[str]
    notices: tuple[str, ...] = ()


class Whole:
    """A whole file, carried.

    Args:
        carried: the file.
        bundle: what was read from it.
        ready: the layers as they are written.
        target: what is written.
    """

    def __init__(self, carried: Carried, bundle: Bundle, ready: Sequence[Ready], target: Target) -> None:
        self.carried, self.bundle, self.ready, self.target = carried, bundle, ready, target

    def model(self, *, modules: bool | None = None) -> Model:
        """The config of the model, for the Keras that is written for.

        Args:
            modules: whether every class says its module; None as the target has it.

        Raises:
            FormatError: a model that does not hang together.
            Incompatible: layers that this Keras has nothing for.
        """
        check_graph(self.carried.file.config)
        if isinstance(self.carried.file, LayeredFile):
            check_arrays(self.carried.file)
        carried, version, layers = self.carried, self.carried.file.version, self.carried.file.model or []
        evidence = {carried.found[name].recurrent.name: one.origin.evidence for name, one in self.bundle.layers.items()}
        if self.target.version.major < 3:
            downgrade = Downgrade(
                self._specs(),
                evidence,
                cudnn=self.target.cudnn,
                modern=version.major >= 3,
                repeats=version.bidirectional_padding() == "repeat",
            )
            old = downgrade.model(carried.file.config, layers)
            return Model(old, tuple(downgrade.layers), {}, (), tuple(downgrade.notices))
        masks = any(one.kind == "Masking" or one.config.get("mask_zero") for layer in layers for one in layer.walk())
        upgrade = Upgrade(
            self._specs(),
            version=version,
            evidence=evidence,
            repeats=masks and version.bidirectional_padding() == "repeat",
            modules=self.target.archive if modules is None else modules,
        )
        config = upgrade.model(carried.file.config, layers)
        return Model(config, tuple(upgrade.layers), upgrade.renamed, upgrade.scaled, tuple(upgrade.notices))

    def weights(self, model: Model | None) -> Group:
        """Every array of the file, in the target's container.

        Raises:
            Incompatible: arrays that have no known place in it.
        """
        file, new = scaled(self.carried.file, model.scaled if model else ()), self._cells()
        layers = file.model or []
        if isinstance(file, ClassedFile):
            if self.target.classed:
                return classed_again(file, new)
            return self._layered(layered_from_classed(file, layers, new), model)
        if not self.target.classed:
            return self._layered(layered_again(file, new), model)
        try:
            return classed_from_layered(file, layers, new)
        except Incompatible as refused:
            if not self.target.archive:
                raise
            old = self.model(modules=False)
            root = with_config(self._layered(layered_again(file, new), old), old)
            return classed_from_layered(file, layers, new, arranged(root, refused))

    def _layered(self, layers: Sequence[LayerGroup], model: Model | None) -> Group:
        names = model.renamed if model else {}
        named = [replace(one, name=names.get(one.name, one.name)) for one in layers]
        return layered_tree(named, self.target.version)

    def _cells(self) -> list[tuple[Found, list[CellArrays]]]:
        by_source = {one.source: one for one in self.ready}
        cells: dict[int, tuple[Found, list[CellArrays]]] = {}
        for name, found in self.carried.found.items():
            new = [arrays for single in by_source[name].cells for arrays in single]
            cells.setdefault(id(found), (found, []))[1].extend(new)
        return list(cells.values())

    def _specs(self) -> dict[str, list[RNNSpec]]:
        """Every recurrent layer by its name in the model: it, or the cells of its stack, as they are written."""
        by_source = {one.source: one.singles for one in self.ready}
        specs: dict[str, list[RNNSpec]] = {}
        for name, found in self.carried.found.items():
            specs.setdefault(found.recurrent.name, []).extend(by_source[name])
        return specs


def with_config(weights: Group, model: Model) -> Group:
    """The tree of a whole model in an `.h5` file."""
    root = Group(groups={WHOLE_MODEL: weights})
    root.attrs = {key: weights.attrs[key] for key in ("backend", "keras_version")}
    root.attrs["model_config"] = json.dumps(model.config).encode()  # Keras 2.3.1 takes bytes alone
    return root


def write_archive(path: Path, weights: Group, model: Model, version: Version) -> None:
    """Write a `.keras` archive. It says no date, so that the same model gives the same bytes."""
    write_members(
        path,
        {
            METADATA: json.dumps({"keras_version": version.text}).encode(),
            CONFIG: json.dumps(model.config).encode(),
            WEIGHTS: hdf5_bytes(weights),
        },
    )
