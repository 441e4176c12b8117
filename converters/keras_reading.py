"""From a cell's arrays and what its file says of it to canonical weights; every guess is said and can be overridden.

Knows what Keras's settings mean; knows no container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from rnnbridge.activation import Activation
from rnnbridge.catalogue import Settings
from rnnbridge.convention import Convention
from rnnbridge.converters.keras_blocks import Block, Found, bias_names, numbers, storage_of, units_of
from rnnbridge.converters.keras_model import LAYERS, TURNED_ROUND
from rnnbridge.converters.keras_rows import activation_named, row_for
from rnnbridge.converters.keras_version import READ, Default, Version, asked_version
from rnnbridge.errors import ArgumentError, FormatError, LayoutError, SpecError
from rnnbridge.spec import Direction, Merge, RNNSpec
from rnnbridge.weights import Assumption, Origin, RNNWeights, stack, stacking_obstacles

Array = NDArray[Any]
_FORWARD = Default("false", "a weights-only file does not say it")
_TANH = Default("tanh", "the default of every version of Keras")


class LayerReader:
    """Reads one recurrent layer, and keeps what decided the reading.

    Args:
        found: the layer and its arrays.
        version: of the Keras that wrote them.
        settings: what the user said.
        memory: what rnnbridge noted in the file about the layer's cells, by setting; empty if nothing.
    """

    def __init__(
        self, found: Found, version: Version, settings: Settings, memory: Sequence[Mapping[str, str]] = ()
    ) -> None:
        self.found, self.settings = found, settings
        self._notes = iter(memory)
        self.memory: Mapping[str, str] = next(self._notes, {})
        self.name = found.recurrent.name
        self.evidence: list[str] = []
        self.assumptions: list[Assumption] = []
        self.version = self._version(version)

    def read(self) -> dict[str, RNNWeights]:
        """The layer, or the cells of a stack that is none, by name.

        Raises:
            FormatError: its arrays do not fit each other or what is said of them.
            SpecError: the file says something of it that no spec can.
            ArgumentError: the user does.
        """
        try:
            cells = self._bidirectional() if self.found.recurrent.bidirectional else self._cells()
        except LayoutError as error:
            raise FormatError(f"layer {self.name!r}: {error}") from error
        if len(cells) == 1:
            return {self.name: cells[0]}
        if not any(stacking_obstacles(*pair) for pair in pairwise(cells)):
            return {self.name: stack(cells)}
        return {f"{self.name}/cell_{k}": cell for k, cell in enumerate(cells)}

    def _version(self, version: Version) -> Version:
        said = self.settings.get("keras_version", self.name)
        if said is not None:
            self.evidence.append(f"keras_version={said} was set")
            return asked_version(said)
        if not version.is_read:
            raise FormatError(
                f"layer {self.name!r}: the file says keras_version={version.text!r}; {READ}. If that Keras keeps its "
                "weights as Keras 3 does, set keras_version=3 (--set keras_version=3)"
            )
        return version

    def ask(self, key: str, config: Mapping[str, Any], default: Default) -> Any:
        """A setting's value: what the user says, else the file, else what rnnbridge noted in it, else the default."""
        said = self.settings.get(key, self.name)
        if said is not None:
            self.evidence.append(f"{key}={said} was set")
            return said
        if key in config:
            return config[key]
        if key in self.memory:
            self.evidence.append(f"{key}={self.memory[key]}: rnnbridge wrote it into the file")
            return self.memory[key]
        assumption = Assumption(key, default.value, default.because)
        if assumption not in self.assumptions:
            self.assumptions.append(assumption)
        return default.value

    def _flag(self, key: str, config: Mapping[str, Any], default: Default) -> bool:
        value = self.ask(key, config, default)
        if isinstance(value, str) and value.lower() not in ("true", "false"):
            raise ArgumentError(f"setting {key}={value!r}; it is true or false")
        return value.lower() == "true" if isinstance(value, str) else bool(value)

    def _cells(self) -> list[RNNWeights]:
        unit = self.found.recurrent
        backwards = self._flag("go_backwards", unit.config, _FORWARD)
        # One turn of the whole stack's input: the upper cells read what is in processing order already.
        directions: list[Direction] = ["forward"] * len(unit.cells)
        directions[0] = "reverse" if backwards else "forward"
        weights = []
        for cell, block, direction in zip(unit.cells, self.found.blocks, directions, strict=True):
            weights.append(self._weights(cell.kind, cell.config, block, dict(block.arrays), direction))
            self.memory = next(self._notes, {})
        return weights

    def _bidirectional(self) -> list[RNNWeights]:
        unit = self.found.recurrent
        if self._flag("go_backwards", unit.config, _FORWARD):
            raise SpecError(TURNED_ROUND)
        forward, backward = self.found.blocks
        both = {**forward.arrays, **{f"backward_{name}": array for name, array in backward.arrays.items()}}
        cell = unit.cells[0]
        return [self._weights(cell.kind, cell.config, forward, both, "bidirectional")]

    def _kind(self, said: str, config: Mapping[str, Any], block: Block) -> tuple[str, str | None]:
        """(class, reset) of a cell."""
        kind, reset, evidence = block.kind()
        if not kind:
            raise LayoutError(f"{evidence}, which fits neither LSTM nor GRU nor SimpleRNN")
        if said:
            self.evidence.append(f"its class is {self.found.recurrent.said}; {evidence}")
            kind = said
        else:
            self.evidence.append(evidence)
            kind = self._class_without_config(kind, block)
        if not kind.endswith("GRU"):
            return kind, None
        if kind == "CuDNNGRU":
            return kind, "after"
        return kind, self._reset(reset, config)

    def _class_without_config(self, kind: str, block: Block) -> str:
        asked = self.settings.get("layer_class", self.name)
        if asked is None:
            if "bias" not in block.arrays and not block.is_keras1 and kind != "SimpleRNN":
                why = f"without a bias CuDNN{kind} has arrays of the same shapes"
                self.assumptions.append(Assumption("layer_class", kind, why))
            return kind
        if asked not in LAYERS:
            raise ArgumentError(f"setting layer_class={asked!r}; it is one of {', '.join(LAYERS)}")
        if block.is_keras1 and asked != kind:
            raise ArgumentError(f"setting layer_class={asked!r}; the arrays per gate are those of {kind} in Keras 1")
        self.evidence.append(f"layer_class={asked} was set")
        return asked

    def _reset(self, shown: str, config: Mapping[str, Any]) -> str:
        """What a bias shows needs no asking; a config that says otherwise is wrong."""
        if not shown:
            return "after" if self._flag("reset_after", config, self.version.reset_after()) else "before"
        said = config.get("reset_after")
        if said is not None and bool(said) != (shown == "after"):
            raise LayoutError(f"the config says reset_after={said}, and the bias is that of a GRU reset {shown}")
        return shown

    def _weights(
        self, said: str, config: Mapping[str, Any], block: Block, arrays: dict[str, Array], direction: Direction
    ) -> RNNWeights:
        kind, reset = self._kind(said, config, block)
        storage = storage_of(arrays)
        arrays = {name: numbers(array, name) for name, array in arrays.items()}
        if kind.startswith("CuDNN") and "bias" not in arrays:
            columns = 2 * block.arrays["recurrent_kernel"].shape[1]
            arrays |= {name: np.zeros(columns, np.float32) for name in bias_names(arrays)}
        row = row_for(kind, reset, block.is_keras1, self.version.major)
        sizes = row.sizes(arrays, 2 if direction == "bidirectional" else 1)
        self._check(row, config, sizes["hidden_size"], arrays)
        spec = RNNSpec(
            cell=row.cell,
            input_size=sizes["input_size"],
            hidden_size=sizes["hidden_size"],
            bias=row.bias_of(arrays),
            reset=cast(Any, reset),
            direction=direction,
            activations=self._activations(kind, config),
            merge=self._merge() if direction == "bidirectional" else "concat",
            output_order="processing" if direction == "reverse" else "input",
        )
        return RNNWeights(spec, row.read(arrays, spec), self._origin(row, direction, storage))

    def _check(self, row: Convention, config: Mapping[str, Any], hidden: int, arrays: Mapping[str, Array]) -> None:
        units, use_bias = units_of(config), config.get("use_bias")
        if units is not None and units != hidden:
            raise LayoutError(f"the config says {units} units, and the arrays have {hidden}")
        if use_bias is not None and bool(use_bias) != (row.bias_of(arrays) != "none"):
            have = "one" if not use_bias else "none"
            raise LayoutError(f"the config says use_bias={use_bias}, and there is {have} among {sorted(arrays)}")

    def _activations(self, kind: str, config: Mapping[str, Any]) -> tuple[Activation, ...]:
        if kind.startswith("CuDNN"):
            return ()  # the standard ones: cuDNN has no others
        main = self._activation("activation", config, _TANH)
        if kind == "SimpleRNN":
            return (main,)
        if "inner_activation" in config:  # what Keras 1 called it
            config = {**config, "recurrent_activation": config["inner_activation"]}
        gates = self._activation("recurrent_activation", config, self.version.recurrent_activation())
        return (gates, *([main] * (2 if kind == "LSTM" else 1)))

    def _activation(self, key: str, config: Mapping[str, Any], default: Default) -> Activation:
        value = self.ask(key, config, default)
        if value == "hard_sigmoid" and not self.version.text:
            raise ArgumentError(
                f"layer {self.name!r}: hard_sigmoid is clip(0.2 x + 0.5) in Keras 2 and tf_keras and clip(x / 6 + 0.5) "
                "in Keras 3, and the file does not say which wrote it: set keras_version=2 or keras_version=3 too"
            )
        try:
            return activation_named(value, self.version.major)
        except SpecError as error:
            if value == self.settings.get(key, self.name):
                raise ArgumentError(f"setting {key}: {error}") from None
            raise

    def _merge(self) -> Merge:
        unit = self.found.recurrent
        config = {} if unit.merge == "" else {"merge_mode": unit.merge}
        value = self.ask("merge_mode", config, Default("concat", "the default; a weights-only file does not say it"))
        merge = "none" if value is None else str(value).lower()
        if merge not in get_args(Merge) and value == self.settings.get("merge_mode", self.name):
            raise ArgumentError(f"setting merge_mode={value!r}; it is one of {', '.join(get_args(Merge))}")
        return cast(Merge, merge)

    def _origin(self, row: Convention, direction: Direction, storage: str) -> Origin:
        config = self.found.recurrent.config
        zeros = direction == "reverse" or config.get("zero_output_for_mask")
        padding = self.version.bidirectional_padding() if direction == "bidirectional" else row.padding
        return Origin(
            framework="keras",
            convention=row.name,
            name=self.name,
            version=self.version.text,
            batch_first=not config.get("time_major", False),
            padding="zero" if zeros else padding,
            storage_dtype=storage,
            evidence=tuple(dict.fromkeys(self.evidence)),
            assumptions=tuple(self.assumptions),
        )
