"""Formats made for tests of what stands above the converters: a plain one, and ones that go wrong on purpose.

A file is an npz of canonical arrays named "layer|array" and a JSON of specs. `plain` writes it right.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnbridge.catalogue import Catalogue, Format, Judge, Settings, WriteOptions, Written, WrittenLayer
from rnnbridge.convention import Convention
from rnnbridge.errors import FormatError
from rnnbridge.rewrite import plan
from rnnbridge.slot import Slot
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import Assumption, Bundle, Origin, RNNWeights

Array = np.ndarray
Spoil = Callable[[dict[str, Array]], dict[str, Array]]


def _row(cell: str, gates: str, **held: Any) -> Convention:
    suffix = "_l{layer}{direction}"
    slots = (
        Slot("weight_ih" + suffix, "weight_ih", "(g o) i"),
        Slot("weight_hh" + suffix, "weight_hh", "(g o) i"),
        Slot("bias_ih" + suffix, "bias_ih", "(g o)", optional=True),
        Slot("bias_hh" + suffix, "bias_hh", "(g o)", optional=True),
    )
    return Convention(
        name=f"plain.{cell.upper()}",
        cell=cell,
        gates=gates,
        slots=slots,
        source="tests/standin.py",
        directions=("forward", "reverse", "bidirectional"),
        many_layers=True,
        **held,
    )


ROWS = (
    _row("lstm", "ifgo", activations=(("sigmoid",), ("tanh",), ("tanh",))),
    _row("gru", "rzn", reset=("after",), activations=(("sigmoid",), ("tanh",))),
    _row("rnn", "n", activations=(("tanh", "relu"),)),
)


def plain_format(name: str, spoil: Spoil = dict, judges: tuple[Judge, ...] = (), full: bool = False) -> Format:
    """A format with the suffix `.<name>` whose writer spoils the arrays of every layer."""

    def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
        options.settings.get("compression")
        if full:
            path.write_bytes(b"half of the file")
            raise OSError(errno.ENOSPC, "No space left on device")
        plans = {name: plan(weights, ROWS) for name, weights in bundle.layers.items()}
        ready = {name: found.apply(bundle[name]) for name, found in plans.items()}
        write_file(path, {name: (one.spec, spoil(dict(one.arrays))) for name, one in ready.items()}, bundle.tensors)
        layers = [WrittenLayer(one, one, found, f"plain({one})") for one, found in plans.items()]
        return Written(tuple(layers), notices=(f"written as {options.suffix}",))

    def read(path: Path, settings: Settings) -> Bundle:
        return read_file(path, settings, name)

    def sniff(path: Path, head: bytes) -> bool:
        return head.startswith(b"PK") and path.name.endswith(f".{name}")

    return Format(name, "plain", (f".{name}",), "stand-ins", "stand-ins", sniff, read, write, judges)


def write_file(
    path: Path, layers: Mapping[str, tuple[RNNSpec, Mapping[str, Array]]], tensors: Mapping[str, Array]
) -> None:
    """Write specs and arrays as they are given."""
    arrays = {f"{name}|{key}": array for name, (_, held) in layers.items() for key, array in held.items()}
    specs = json.dumps({name: spec.to_dict() for name, (spec, _) in layers.items()})
    with path.open("wb") as file:
        np.savez(file, specs=np.array(specs), **arrays, **{f"|{name}": array for name, array in tensors.items()})


def read_file(path: Path, settings: Settings, format_name: str) -> Bundle:
    """Read what `write_file` wrote. The setting `order` is asked for and changes nothing."""
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = dict(file)
    except Exception as error:
        raise FormatError(f"{path} is damaged: {error}") from error
    layers = {}
    for name, spec in json.loads(str(arrays.pop("specs"))).items():
        assumed = () if settings.get("order", name) else (Assumption("order", "ifgo", "the file does not say"),)
        origin = Origin(
            "plain", f"plain.{spec['cell'].upper()}", name, "1.0", True, evidence=("said so",), assumptions=assumed
        )
        held = {key.partition("|")[2]: array for key, array in arrays.items() if key.startswith(f"{name}|")}
        layers[name] = RNNWeights(RNNSpec.from_dict(spec), held, origin)
    tensors = {key[1:]: array for key, array in arrays.items() if key.startswith("|")}
    return Bundle(layers, tensors, format_name, path, ("a stand-in",))


def splitting_format(name: str) -> Format:
    """A format that holds one layer each: a stack becomes several entries."""

    def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
        written, files = [], {}
        for source, weights in bundle.layers.items():
            found = plan(weights, ROWS)
            for number, single in enumerate(found.apply(weights).split()):
                target = f"{source}_{number}"
                files[target] = (single.spec, single.arrays)
                written.append(WrittenLayer(source, target, found, f"plain({target})", {"order": "ifgo"}))
        write_file(path, files, {})
        return Written(tuple(written), tuple(bundle.tensors))

    return replace(plain_format(name), write=write)


def negate_update(arrays: dict[str, Array]) -> dict[str, Array]:
    """What a writer does that gets one sign wrong."""
    return {key: -array if key == "weight_hh_l0" else array for key, array in arrays.items()}


def install(monkeypatch: pytest.MonkeyPatch, *formats: Format) -> None:
    """Let rnnbridge know these formats and no other."""
    made = Catalogue({row.name: row for row in ROWS}, {one.name: one for one in formats}, {})
    for module in ("bundle", "inspection", "proof.judges", "tables"):
        monkeypatch.setattr(f"rnnbridge.{module}.catalogue", lambda: made)


@pytest.fixture
def standins(monkeypatch: pytest.MonkeyPatch) -> None:
    """plain, wrong (one sign), full (a disk without space) and split (a stack is several entries)."""
    wrong, full = plain_format("wrong", negate_update), plain_format("full", full=True)
    install(monkeypatch, plain_format("plain"), wrong, full, splitting_format("split"))
