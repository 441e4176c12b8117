"""What rnnbridge notes in the HDF5 files it writes, because weights alone do not say it. Keras passes it over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rnnbridge.converters.keras_blocks import Found
from rnnbridge.errors import SpecError
from rnnbridge.files.hdf5 import Group
from rnnbridge.spec import RNNSpec

ATTRIBUTE = "rnnbridge"
_EDITION = 1
_KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn": "SimpleRNN"}


def note(layers: Mapping[str, Sequence[RNNSpec]]) -> str:
    """The attribute: every layer's cells, by the name that the layer has in the file."""
    plain = {name: [spec.to_dict() for spec in specs] for name, specs in layers.items()}
    return json.dumps({"edition": _EDITION, "layers": plain}, sort_keys=True)


class Memory:
    """What a file's attribute says of its layers; empty where there is none, or another edition's."""

    def __init__(self, root: Group) -> None:
        self._layers: dict[str, list[RNNSpec]] = {}
        self.notices: list[str] = []
        text = root.attrs.get(ATTRIBUTE)
        if not isinstance(text, str):
            return
        try:
            said = json.loads(text)
            if said["edition"] == _EDITION:
                self._layers = {
                    str(name): [RNNSpec.from_dict(plain) for plain in cells] for name, cells in said["layers"].items()
                }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SpecError) as error:
            self.notices.append(f"the attribute {ATTRIBUTE!r} of the file cannot be read and is passed over: {error}")

    def of(self, found: Found) -> tuple[dict[str, str], ...]:
        """The settings of every cell of a layer; none where the arrays are another layer's by now."""
        specs = self._layers.get(found.recurrent.name)
        if specs is None:
            return ()
        noted = [(_KINDS[spec.cell], spec.hidden_size) for spec in specs for _ in range(spec.num_directions)]
        have = [(block.kind()[0].removeprefix("CuDNN"), block.units) for block in found.blocks]
        if noted != have:
            self.notices.append(
                f"layer {found.recurrent.name!r}: rnnbridge noted another layer in the file, so the note is passed over"
            )
            return ()
        return tuple(_settings(spec) for spec in specs)


def _settings(spec: RNNSpec) -> dict[str, str]:
    settings = {
        "activation": str(spec.activations[-1]),
        "go_backwards": str(spec.direction == "reverse").lower(),
        "merge_mode": spec.merge,
        "reset_after": str(spec.reset == "after").lower(),
    }
    return settings if spec.cell == "rnn" else settings | {"recurrent_activation": str(spec.activations[0])}
