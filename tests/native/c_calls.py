"""The C interface without the package in between: right arguments, of which a test changes one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from rnnbridge._native import codes, interface, library
from rnnbridge.engine import aligned_empty
from rnnbridge.errors import ArgumentError, NativeError
from rnnbridge.spec import RNNSpec
from tests.samples import inputs_of, spec_of, weights_of

T, N, H = 7, 3, 17
UNTOUCHED = 0x5A
TRAINING, RECOMPUTE = interface.PlanFlag.TRAINING, interface.PlanFlag.RECOMPUTE
Change = Callable[[Any], None]


def to(**values: Any) -> Change:
    """Sets fields; a value that is a function gets what the field held."""

    def change(struct: Any) -> None:
        for name, value in values.items():
            setattr(struct, name, value(getattr(struct, name)) if callable(value) else value)

    return change


RIGHT = to()


def spec_struct(spec: RNNSpec, change: Change = RIGHT) -> interface.Spec:
    words = ("cell", "direction", "bias", "merge", "output_order")
    numbers = {word: codes(word)[getattr(spec, word)] for word in words}
    numbers |= {"reset": codes("reset")[spec.reset or "none"], "dtype": codes("dtype")["float32"]}
    slots = [interface.Activation(code=codes("activation")[one.name]) for one in spec.activations]
    sizes = {name: getattr(spec, name) for name in ("num_layers", "input_size", "hidden_size")}
    struct = interface.Spec(**numbers, **sizes, activations=(interface.Activation * 3)(*slots))
    change(struct)
    return struct


def made(spec: interface.Spec | None, T: int = T, N: int = N, flags: int = 0) -> ctypes.c_void_p:
    plan = ctypes.c_void_p(UNTOUCHED)
    try:
        library().rnb_plan_create(spec, T, N, flags, plan)
    except (ArgumentError, NativeError):
        assert plan.value == UNTOUCHED
        raise
    return plan


def filled(nbytes: int) -> np.ndarray:
    block = aligned_empty(nbytes)
    block[...] = UNTOUCHED
    return block


class Calls:
    """A plan and the arguments of every call of it, all of them right; `written` is what calls may write to."""

    def __init__(self, cell: str = "lstm", flags: int = TRAINING, T: int = T, **changes: Any) -> None:
        spec = spec_of(cell, **{"hidden_size": H, "num_layers": 2, "direction": "bidirectional", **changes})
        self.plan, sizes = made(spec_struct(spec), T, N, flags), interface.Sizes()
        library().rnb_plan_sizes(self.plan, sizes)
        given, shapes = inputs_of(spec, N, T, lengths=True), {"y": (T, N, spec.output_size)}
        shapes |= dict.fromkeys(("hn", "cn", "dh0", "dc0", "dx"), given.h0.shape) | {"dx": given.x.shape}
        written = {name: filled(4 * int(np.prod(shape))) for name, shape in shapes.items()}
        written |= {name: filled(getattr(sizes, f"{name}_nbytes")) for name in ("workspace", "tape", "packed")}
        if not spec.has_cell_state:
            del written["cn"], written["dc0"]
        if not flags:
            del written["tape"]
        dy = np.ones((T, N, spec.output_size), "f")
        self.read = {"x": given.x, "h0": given.h0, "c0": given.c0, "lengths": given.lengths.astype(np.int64)}
        self.read |= {"dy": dy, "dhn": given.h0, "dcn": given.c0}
        weights = list(weights_of(spec).arrays.values())
        targets = [filled(array.nbytes) for array in weights]
        self.written = {**written, **{f"dweights[{i}]": array for i, array in enumerate(targets)}}
        pointers = {name: array.ctypes.data for name, array in {**self.read, **written}.items() if array is not None}
        strides = {"x": spec.input_size, "y": spec.output_size, "dy": spec.output_size, "dx": spec.input_size}
        numbers = {f"{n}_stride_t": N * size for n, size in strides.items()}
        numbers |= {f"{n}_stride_n": size for n, size in strides.items()} | {"lengths_itemsize": 8}
        self.weights = interface.Weights(arrays=self._pointers(weights), count=len(weights))
        self.forward = interface.ForwardArgs(**self._fields(interface.ForwardArgs, pointers | numbers))
        self.backward = interface.BackwardArgs(**self._fields(interface.BackwardArgs, pointers | numbers))
        self.backward.dweights, self.backward.dweights_count = self._pointers(targets), len(targets)
        self._kept = weights

    @staticmethod
    def _pointers(arrays: list[np.ndarray]) -> Any:
        return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))

    @staticmethod
    def _fields(struct: Any, values: dict[str, Any]) -> dict[str, Any]:
        return {name: values[name] for name, _ in struct._fields_ if name in values}

    def run(self, function: str, change: Change) -> None:
        """One call with one argument changed, after those that have to come before it."""
        if function == "backward":
            library().rnb_pack(self.plan, self.weights, self.forward.packed)
            library().rnb_forward(self.plan, self.forward)
        struct = {"pack": self.weights, "forward": self.forward, "backward": self.backward}[function]
        change(struct)
        last = [self.forward.packed] if function == "pack" else []
        before = {name: array.copy() for name, array in self.written.items()}
        try:
            getattr(library(), f"rnb_{function}")(self.plan, struct, *last)
        finally:
            changed = [name for name, array in self.written.items() if not np.array_equal(array, before[name])]
            library().rnb_plan_destroy(self.plan)
        assert not changed, f"{changed} written to, or no error"
