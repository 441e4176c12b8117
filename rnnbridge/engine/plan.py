"""One problem of fixed sizes on the engine: how much memory it needs, and running it on memory that the caller owns.

Knows the canonical form and the C interface. Allocates nothing that grows with T or N.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rnnbridge._native import codes, library
from rnnbridge._native.interface import Activation, ForwardArgs, Sizes, Spec, Weights
from rnnbridge.engine.arguments import check_block, check_plain, check_rows, refuse, whole
from rnnbridge.engine.memory import Block, aligned_empty
from rnnbridge.engine.threads import call_threads
from rnnbridge.errors import ArgumentError, Incompatible
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import float_dtype

Array = NDArray[Any]

# Fields of a spec that the engine runs only at the value given here.
_ONLY: dict[str, tuple[object, str]] = {
    "proj_size": (0, "a projection"),
    "peephole": (False, "peepholes"),
    "clip": (None, "a bound on the pre-activations"),
    "cell_clip": (None, "a bound on the cell state"),
    "proj_clip": (None, "a bound on the projected state"),
    "coupled": (None, "coupled gates"),
}


def unsupported(spec: RNNSpec) -> list[str]:
    """Why the engine does not run such a layer; empty if it does."""
    return [
        f"{what} ({field}={getattr(spec, field)!r}) is not run yet"
        for field, (value, what) in _ONLY.items()
        if getattr(spec, field) != value
    ]


class Plan:
    """A layer's spec at fixed T and N. Immutable: several threads may use one, each with a workspace of its own.

    Args:
        spec: what the layer is.
        T: time steps, at least 1.
        N: batch size, at least 0.
        training: this version of the engine runs forward only, so True is an error.
        dtype: "float32" or "float64" (or NumPy's own), of every array.

    Attributes:
        state_shape: [L*D, N, H] of h0, c0, hn and cn.
        packed_nbytes: bytes of packed weights; depends on the spec and dtype alone.
        workspace_nbytes: bytes of scratch, polynomial in T and N (rnb_sizes in rnnbridge.h).
        tape_nbytes: what a training forward keeps for its backward: 0 without training.

    Raises:
        Incompatible: with every reason why the engine does not run this spec.
        ArgumentError: T, N, dtype or training is out of range.
        NativeError: the compiled library is not there or does not fit.
    """

    def __init__(self, spec: RNNSpec, T: int, N: int, training: bool = False, dtype: DTypeLike = "float32") -> None:
        refuse_training(training)
        if reasons := unsupported(spec):
            raise Incompatible("the engine does not run this layer", reasons)
        self.spec, self.dtype = spec, float_dtype(dtype)
        self.T, self.N = whole("T", T, least=1), whole("N", N, least=0)
        self.state_shape = (spec.num_layers * spec.num_directions, self.N, spec.hidden_size)
        self._library = library()
        self._handle = ctypes.c_void_p()
        self._library.rnb_plan_create(_c_spec(spec, self.dtype), self.T, self.N, 0, self._handle)
        weakref.finalize(self, self._library.rnb_plan_destroy, self._handle).atexit = False
        sizes = Sizes()
        self._library.rnb_plan_sizes(self._handle, sizes)
        self.packed_nbytes: int = sizes.packed_nbytes
        self.workspace_nbytes: int = sizes.workspace_nbytes
        self.tape_nbytes = 0

    def __repr__(self) -> str:
        sizes = f"packed {self.packed_nbytes}, workspace {self.workspace_nbytes}, tape {self.tape_nbytes} bytes"
        return f"<Plan T={self.T} N={self.N} {self.dtype}: {sizes}>"

    def pack(self, weights: Mapping[str, Array], out: Block | None = None) -> Block:
        """Reorder the weights into the engine's own panels. Plans of an equal spec and dtype share the result.

        Args:
            weights: the canonical arrays by name, C-contiguous and of the plan's dtype; only read.
            out: uint8 [packed_nbytes] or more at a multiple of 64 (`aligned_empty`), else new memory.

        Returns:
            The packed weights: `out`, if it was given.

        Raises:
            ArgumentError: naming every array that does not fit.
        """
        out = aligned_empty(self.packed_nbytes) if out is None else out
        shapes = self.spec.weight_shapes()
        refuse(
            *(f"{name} is missing" for name in shapes if name not in weights),
            *(check_plain(name, weights.get(name), shape, self.dtype) for name, shape in shapes.items()),
            check_block("out", out, self.packed_nbytes, written=True),
        )
        addresses = (ctypes.c_void_p * len(shapes))(*(weights[name].ctypes.data for name in shapes))
        self._library.rnb_pack(self._handle, Weights(arrays=addresses, count=len(shapes)), out.ctypes.data)
        return out

    def forward(self, x: Array, **memory: Any) -> None:
        """Run once. Takes what `bind` takes; results are in y, hn and cn."""
        self.bind(x, **memory)()

    def bind(
        self,
        x: Array,
        *,
        packed: Block,
        workspace: Block,
        y: Array | None = None,
        lengths: Array | None = None,
        h0: Array | None = None,
        c0: Array | None = None,
        hn: Array | None = None,
        cn: Array | None = None,
        threads: int | None = None,
    ) -> Callable[[], None]:
        """Check the memory once, for a run that may be repeated over it with other contents.

        What is written may not overlap anything else, except that hn may be h0 itself and cn may be c0.

        Args:
            x: [T, N, I], any T and N strides, features contiguous; never read past a sequence's length.
            packed: what `pack` gave.
            workspace: uint8 [workspace_nbytes] or more at a multiple of 64; holds nothing between runs.
            y: [T, N, output_size], strides as for x; zero past a length. None if not wanted. With merge "none" the two
                directions lie side by side.
            lengths: int32 or int64 [N], each 0..T, in any order; None is T everywhere.
            h0, c0: initial states [L*D, N, H], contiguous; None is zeros. c0 is the LSTM's only.
            hn, cn: final states, the same shape; None if not wanted.
            threads: at most so many for each run; None is `get_num_threads()`.

        Returns:
            A function without arguments that runs the plan and allocates nothing. It keeps the arrays alive.

        Raises:
            ArgumentError: naming every array that does not fit, at once.
        """
        states = {"h0": h0, "hn": hn, "c0": c0, "cn": cn}
        refuse(
            check_rows("x", x, (self.T, self.N, self.spec.input_size), self.dtype),
            check_rows("y", y, (self.T, self.N, self.spec.output_size), self.dtype, written=True),
            *self._check_states(states),
            None if lengths is None else _check_lengths(lengths, self.N),
            check_block("packed", packed, self.packed_nbytes),
            check_block("workspace", workspace, self.workspace_nbytes, written=True),
        )
        pointers = {"packed": packed, "workspace": workspace, "x": x, "y": y, "lengths": lengths, **states}
        args = ForwardArgs(
            **{name: None if array is None else array.ctypes.data for name, array in pointers.items()},
            **_strides("x", x),
            **_strides("y", y),
            lengths_itemsize=0 if lengths is None else lengths.itemsize,
            num_threads=call_threads(threads),
        )
        return _Run(self, args, pointers)

    def _check_states(self, states: Mapping[str, Array | None]) -> Iterator[str | None]:
        for name, array in states.items():
            if name.startswith("c") and array is not None and not self.spec.has_cell_state:
                yield f"{name} was given, but a {self.spec.cell.upper()} has no cell state"
            else:
                yield check_plain(name, array, self.state_shape, self.dtype, written=name.endswith("n"))


class _Run:
    """A checked call over fixed memory."""

    __slots__ = ("_args", "_arrays", "_plan")

    def __init__(self, plan: Plan, args: ForwardArgs, arrays: Mapping[str, Array | None]) -> None:
        self._plan, self._args, self._arrays = plan, args, arrays

    def __call__(self) -> None:
        self._plan._library.rnb_forward(self._plan._handle, self._args)


def refuse_training(training: bool) -> None:
    """Raise ArgumentError if training is asked for."""
    if training:
        raise ArgumentError("training=True: this version of the engine runs forward only; leave training out")


def _c_spec(spec: RNNSpec, dtype: np.dtype[Any]) -> Spec:
    slots = [
        Activation(code=codes("activation")[one.name], alpha=one.alpha or 0.0, beta=one.beta or 0.0)
        for one in spec.activations
    ]
    words = ("cell", "direction", "bias", "merge", "output_order")
    return Spec(
        **{word: codes(word)[getattr(spec, word)] for word in words},
        reset=codes("reset")[spec.reset or "none"],
        dtype=codes("dtype")[dtype.name],
        num_layers=spec.num_layers,
        input_size=spec.input_size,
        hidden_size=spec.hidden_size,
        activations=(Activation * 3)(*slots),
    )


def _strides(name: str, array: Array | None) -> dict[str, int]:
    if array is None:
        return {}
    return {f"{name}_stride_{axis}": array.strides[k] // array.itemsize for k, axis in enumerate("tn")}


def _check_lengths(lengths: Array, N: int) -> str | None:
    if lengths.dtype in (np.int32, np.int64) and lengths.shape == (N,) and lengths.flags.c_contiguous:
        return None
    return f"lengths is {lengths.dtype} {list(lengths.shape)}; it is int32 or int64 [{N}], contiguous"
