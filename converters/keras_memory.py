"""What rnnbridge notes in the HDF5 files it writes, because weights alone do not say it. Keras passes it over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rnnbridge.converters.keras_blocks import Found
from rnnbridge.errors import SpecError
from rnnbridge.files.hdf5 import Group
from rnnbridge.spec import RNNSpec

ATTRIBUTE = "rnnbridge"
_EDITION = 1


def note(specs: Mapping[str, RNNSpec]) -> str:
    """The attribute for layers by the name that reading gives them."""
    plain = {name: spec.to_dict() for name, spec in specs.items()}
    return json.dumps({"edition": _EDITION, "layers": plain}, sort_keys=True)


class Memory:
    """What a file's attribute says of its layers; empty where there is none, or another edition's."""

    def __init__(self, root: Group) -> None:
        self._specs: dict[str, RNNSpec] = {}
        self.notices: list[str] = []
        text = root.attrs.get(ATTRIBUTE)
        if not isinstance(text, str):
            return
        try:
            said = json.loads(text)
            if said["edition"] == _EDITION:
                self._specs = {str(name): RNNSpec.from_dict(plain) for name, plain in said["layers"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SpecError) as error:
            self.notices.append(f"the attribute {ATTRIBUTE!r} of the file cannot be read and is passed over: {error}")

    def of(self, found: Found) -> dict[str, str]:
        """The settings of a layer; none where the arrays are another layer's by now."""
        spec = self._specs.get(found.recurrent.name)
        if spec is None:
            return {}
        block = found.blocks[0]
        kind = block.kind()[0].removeprefix("CuDNN")
        have = (kind.lower(), block.units, len(found.blocks))
        if have != (_KINDS[spec.cell], spec.hidden_size, spec.num_directions * spec.num_layers):
            self.notices.append(
                f"layer {found.recurrent.name!r}: rnnbridge noted another layer in the file, so the note is passed over"
            )
            return {}
        return _settings(spec)


_KINDS = {"lstm": "lstm", "gru": "gru", "rnn": "simplernn"}


def _settings(spec: RNNSpec) -> dict[str, Any]:
    main = spec.activations[-1]
    settings = {"activation": str(main), "go_backwards": str(spec.direction == "reverse").lower()}
    if spec.cell != "rnn":
        settings["recurrent_activation"] = str(spec.activations[0])
    if spec.reset:
        settings["reset_after"] = str(spec.reset == "after").lower()
    if spec.num_directions == 2:
        settings["merge_mode"] = spec.merge
    return settings
