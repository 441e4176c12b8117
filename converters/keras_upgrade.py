"""The config of an old Keras model as Keras 3 takes it, and what was changed in which layer and why.

Only what Keras 3 does not take is changed. Nothing that a config names is imported or run. Knows no arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rnnbridge.catalogue import CarriedLayer
from rnnbridge.converters.keras_classes import (
    CONTAINERS,
    DEAD,
    KEYWORDS,
    LINEAR,
    REMOVED_CLASSES,
    RENAMED,
    RENAMED_CLASSES,
)
from rnnbridge.converters.keras_config import is_keras_own
from rnnbridge.converters.keras_entry import (
    SAID_BY_MODULE,
    Entry,
    free_of_slashes,
    is_code,
    lambda_entry,
    names_hard_sigmoid,
    replaced,
    with_input,
    with_module,
)
from rnnbridge.converters.keras_given_masks import told_of_masks, with_masks
from rnnbridge.converters.keras_graph import upgraded_graph
from rnnbridge.converters.keras_inserted import with_rescaling
from rnnbridge.converters.keras_masks import mask_differences, masks_to_give
from rnnbridge.converters.keras_model import Layer
from rnnbridge.converters.keras_one import of_keras_1
from rnnbridge.converters.keras_scaled import factor
from rnnbridge.converters.keras_settings import SCALED, cell_settings, modern_values, other_numbers
from rnnbridge.converters.keras_version import Version
from rnnbridge.errors import Incompatible
from rnnbridge.spec import RNNSpec

_NO_OTHER = f"{{}} with a hard_sigmoid; {SCALED}, which has no other"

_VERBATIM = "kept as it is and never run here; loading it takes what defines it"
_UNKNOWN = "kept as it is: what Keras 3 takes for this class is not known here"


class Upgrade:
    """One pass over a model's config.

    Args:
        specs: layer's name -> the layer, or the cells of a stack, as they are written for Keras 3.
        version: of the Keras that wrote it; before 3 the hard_sigmoid is another.
        evidence: why each was read as it was, by the same names.
        repeats: whether the source's Bidirectional repeats its last output past a mask, and something masks.
        modules: whether every class says its module, as in an archive.
    """

    def __init__(
        self,
        specs: Mapping[str, Sequence[RNNSpec]],
        *,
        version: Version,
        evidence: Mapping[str, Sequence[str]],
        repeats: bool,
        modules: bool,
    ) -> None:
        self.evidence, self.repeats = evidence, repeats
        self.notices: list[str] = []
        self.specs, self.written_by, self.version, self.modules = specs, version, version.major, modules
        self.layers: list[CarriedLayer] = []
        self.problems: list[str] = []
        self.changes: list[str] = []
        self.renamed: dict[str, str] = {}
        self.scaled: set[str] = set()
        self.softened: dict[str, str] = {}

    def model(self, model: Mapping[str, Any], layers: Sequence[Layer]) -> Entry:
        """The whole model.

        Raises:
            Incompatible: layers that Keras 3 has nothing for, with every reason.
        """
        out = self._container(dict(model), layers)
        self.problems += [f"layer {name!r}: {_NO_OTHER.format('Activation')}" for name in self.softened]  # wrapped ones
        if self.version < 3:
            refused, told = mask_differences(model, self.repeats, self.modules)
            self.problems += refused
            self.notices += told
            givers = masks_to_give(model)
            out, self.layers = with_masks(out, givers), told_of_masks(self.layers, givers)
        if self.problems:
            raise Incompatible("Keras 3 cannot have this model", self.problems)
        self.renamed = free_of_slashes(out)
        self.layers = [
            replace(one, changes=(*one.changes, f"the name {old!r} becomes {new!r}: Keras 3 takes no / in a name"))
            if (old := one.name) in self.renamed and (new := self.renamed[old])
            else one
            for one in self.layers
        ]
        return dict(replaced(out, self.renamed))

    def _container(self, entry: Entry, layers: Sequence[Layer]) -> Entry:
        config, old = entry["config"], str(entry["class_name"])
        kind = RENAMED_CLASSES.get(old, old)
        if isinstance(config, list):  # a Sequential before Keras 2.2.3
            config = {"name": entry.get("name", "sequential"), "layers": config}
        entries = [self._layer(dict(one), layer) for one, layer in zip(config["layers"], layers, strict=True)]
        if kind == "Sequential":
            config = {**config, "layers": with_input(config["layers"], entries)}
        else:
            config = upgraded_graph(config, entries, self.version)  # which refuses a damaged one
        softened = [name for layer in layers if (name := self.softened.pop(layer.name, None))]
        config = with_rescaling(config, softened, factor(), modules=self.modules)
        return self._classed({**entry, "class_name": kind, "config": config}, kind)

    def _layer(self, entry: Entry, layer: Layer) -> Entry:
        self.changes = []
        entry = self._modern(entry, layer.name)
        kind = entry["class_name"]
        if kind in CONTAINERS and layer.children:
            return self._container(entry, layer.children)
        if kind in REMOVED_CLASSES and is_keras_own(entry):
            self.problems.append(f"layer {layer.name!r}: Keras 3 has no {kind}")
            return entry
        if self._is_strange(entry, layer):
            if self.version < 3 and names_hard_sigmoid(entry.get("config")):
                self.problems.append(f"layer {layer.name!r}: {_NO_OTHER.format(kind)}")
            self.layers.append(CarriedLayer(layer.name, kind, kind, (_VERBATIM if is_code(entry) else _UNKNOWN,)))
            return lambda_entry(entry) if kind == "Lambda" else entry
        if layer.children:  # a TimeDistributed
            (inner,) = layer.children
            wrapped = self._layer(dict(entry["config"]["layer"]), inner)
            self.changes = []
            entry = {**entry, "config": {**entry["config"], "layer": with_module(wrapped)}}
        if layer.recurrent is not None:
            entry = self._recurrent(entry, layer)
        out = self._plain(entry, layer.name)
        self.changes += [f"read so because {evidence}" for evidence in self.evidence.get(layer.name, ())]
        self.layers.append(CarriedLayer(layer.name, kind, out["class_name"], tuple(self.changes)))
        return out

    def _is_strange(self, entry: Entry, layer: Layer) -> bool:
        """Whether nothing is known here of what the layer does: a Lambda, a class or cell of the user's own."""
        known = is_keras_own(entry) and RENAMED_CLASSES.get(entry["class_name"], entry["class_name"]) in KEYWORDS
        return not known or (layer.recurrent is not None and not layer.recurrent.cells)

    def _recurrent(self, entry: Entry, layer: Layer) -> Entry:
        specs = self.specs.get(layer.name)
        if specs is None:
            self.problems.append(f"layer {layer.name!r}: {layer.recurrent and layer.recurrent.obstacle}")
            return entry
        config = dict(entry["config"])
        if entry["class_name"] == "Bidirectional":
            self._note_padding(layer)
            for key in ("layer", "backward_layer"):
                if isinstance(config.get(key), dict):
                    config[key] = with_module(self._cell(dict(config[key]), layer.name, specs))
        elif entry["class_name"] == "RNN":
            config["cell"] = with_module(self._cell(dict(config["cell"]), layer.name, specs))
        else:
            return self._settings(entry, layer.name, specs[0])
        return {**entry, "config": config}

    def _note_padding(self, layer: Layer) -> None:
        if self.repeats and layer.recurrent and layer.recurrent.config.get("return_sequences"):
            self.changes.append("masked steps at the end give zeros in Keras 3")
            self.notices.append(
                f"{layer.name}: where its input is masked, this Keras's Bidirectional repeats its last output and that "
                "of Keras 3 gives zeros: the same for layers that heed the mask, not for others"
            )

    def _cell(self, entry: Entry, name: str, specs: Sequence[RNNSpec]) -> Entry:
        """A layer in a Bidirectional, a RNN's cell, or the cells of a stack."""
        entry = self._modern(entry, name)
        config = dict(entry["config"])
        if entry["class_name"] == "StackedRNNCells":
            pairs = zip(config["cells"], specs, strict=True)
            config["cells"] = [with_module(self._cell(dict(cell), name, [spec])) for cell, spec in pairs]
            return self._plain({**entry, "config": config}, name)
        if entry["class_name"] == "RNN":
            config["cell"] = with_module(self._cell(dict(config["cell"]), name, specs))
            return self._plain({**entry, "config": config}, name)
        return self._plain(self._settings(entry, name, specs[0]), name)

    def _modern(self, entry: Entry, name: str) -> Entry:
        """An entry of Keras 1 as Keras 2 has it."""
        if self.version > 1 or not isinstance(entry["config"], dict):
            return entry
        entry, changes, problem = of_keras_1(entry)
        self.changes += changes
        self.problems += [f"layer {name!r}: {problem}"] if problem else []
        return entry

    def _settings(self, entry: Entry, name: str, spec: RNNSpec) -> Entry:
        """A cell's settings as the arrays are written."""
        config, changes = cell_settings(entry["config"], spec, self.version)
        self.changes += changes
        return {**entry, "config": config}

    def _plain(self, entry: Entry, name: str) -> Entry:
        """A layer or cell by itself: its class, its keywords."""
        old: str = entry["class_name"]
        kind = RENAMED_CLASSES.get(old, old)
        if kind != old:
            self.changes.append(f"{old} becomes {kind}")
        config = {RENAMED.get(kind, {}).get(key, key): value for key, value in entry["config"].items()}
        self.changes += [f"{key} becomes {new}" for key, new in RENAMED.get(kind, {}).items() if key in entry["config"]]
        for key in [key for key in config if kind in KEYWORDS and key not in KEYWORDS[kind]]:
            self._drop(config, key, kind, name)
        self.changes += modern_values(config, kind)
        self.problems += [f"layer {name!r}: {why}" for why in other_numbers(config, kind, self.written_by)]
        self._hard_sigmoid(config, kind, name)
        return self._classed({**entry, "class_name": kind, "config": config}, kind)

    def _drop(self, config: Entry, key: str, kind: str, name: str) -> None:
        value, dead = config.pop(key), DEAD.get(key)
        if dead is None or (dead.values is not None and value not in dead.values):
            why = f"; it may be dropped where it is {dead.values[0]}" if dead and dead.values else ""
            self.problems.append(f"layer {name!r}: {kind} has {key}={value!r}, which Keras 3 does not take{why}")
            return
        shown = repr(value)
        self.changes.append(f"{key}={shown if len(shown) < 60 else '...'} dropped: {dead.because}")

    def _hard_sigmoid(self, config: Entry, kind: str, name: str) -> None:
        """A layer that is not recurrent and whose activation is the other hard sigmoid."""
        if self.version >= 3 or ("units" in config and kind != "Dense") or config.get("activation") != "hard_sigmoid":
            return
        if kind == "Activation":
            self.softened[name] = config["name"]
            self.changes.append(f"activation=hard_sigmoid kept, after a new Rescaling by {factor():.2g}: {SCALED}")
        elif kind in LINEAR:
            self.scaled.add(name)
            self.changes.append(f"activation=hard_sigmoid kept, with the arrays rescaled: {SCALED}")
        else:
            self.problems.append(f"layer {name!r}: {_NO_OTHER.format(kind)}")

    def _classed(self, entry: Entry, kind: str) -> Entry:
        return with_module(entry) if self.modules else {key: entry[key] for key in entry if key not in SAID_BY_MODULE}
