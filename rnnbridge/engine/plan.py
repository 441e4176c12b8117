"""One problem of fixed sizes on the engine: how much memory it needs, and running it on memory that the caller owns.

Knows the canonical form and the C interface. Allocates nothing that grows with T or N.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from numpy.typing import DTypeLike, NDArray

from rnnbridge._native import library
from rnnbridge._native.interface import Accumulate, PlanFlag, Sizes, Weights
from rnnbridge.engine.arguments import (
    check_block,
    check_is,
    check_lengths,
    check_plain,
    check_rows,
    check_states,
    read_generation,
    refuse,
    whole,
)
from rnnbridge.engine.c_spec import c_spec, unsupported
from rnnbridge.engine.calls import Run, backward_args, forward_args, pointer_array
from rnnbridge.engine.dropout import Dropout
from rnnbridge.engine.memory import Block, address, aligned_empty
from rnnbridge.errors import ArgumentError, Incompatible
from rnnbridge.spec import RNNSpec
from rnnbridge.weights import float_dtype

Array = NDArray[Any]


class Plan:
    """A layer's spec at fixed T and N. Immutable: several threads may use one, each with a workspace of its own.

    Args:
        spec: what the layer is.
        T: time steps, at least 1.
        N: batch size, at least 0.
        training: whether it can run backward too.
        dtype: "float32" or "float64" (or NumPy's own), of every array.
        recompute: in training, keep no gates and few cell states; backward runs each stretch of steps forward once
            more. The gradients are the same bits.

    Attributes:
        state_shape: [L*D, N, H] of states and of their gradients.
        packed_nbytes: bytes of packed weights; depends on the spec, the dtype and training alone.
        workspace_nbytes: bytes of scratch, of forward and backward alike (rnb_sizes in rnnbridge.h).
        tape_nbytes: bytes that a training forward keeps for its backward: 0 without training.

    Raises:
        Incompatible: with every reason why the engine does not run this spec.
        ArgumentError: T, N or dtype is out of range, or an activation cannot be trained.
        NativeError: the compiled library is not there or does not fit.
    """

    def __init__(
        self,
        spec: RNNSpec,
        T: int,
        N: int,
        training: bool = False,
        dtype: DTypeLike = "float32",
        recompute: bool = False,
    ) -> None:
        refuse(check_is("spec", spec, RNNSpec, required=True))
        if reasons := unsupported(spec):
            raise Incompatible("the engine does not run this layer", reasons)
        if recompute and not training:
            raise ArgumentError("recompute=True says how training keeps its tape; give training=True too")
        flags = PlanFlag.TRAINING * bool(training) | PlanFlag.RECOMPUTE * bool(recompute)
        self.spec, self.dtype = spec, float_dtype(dtype)
        self.T, self.N = whole("T", T, least=1), whole("N", N, least=0)
        self.training, self.recompute = bool(training), bool(recompute)
        self.state_shape = (spec.num_layers * spec.num_directions, self.N, spec.hidden_size)
        self._library = library()
        self._handle = ctypes.c_void_p()
        self._library.rnb_plan_create(c_spec(spec, self.dtype), self.T, self.N, flags, self._handle)
        weakref.finalize(self, self._library.rnb_plan_destroy, self._handle).atexit = False
        sizes = Sizes()
        self._library.rnb_plan_sizes(self._handle, sizes)
        self.packed_nbytes: int = sizes.packed_nbytes
        self.workspace_nbytes: int = sizes.workspace_nbytes
        self.tape_nbytes: int = sizes.tape_nbytes

    def __repr__(self) -> str:
        sizes = f"packed {self.packed_nbytes}, workspace {self.workspace_nbytes}, tape {self.tape_nbytes} bytes"
        return f"<Plan T={self.T} N={self.N} {self.dtype}: {sizes}>"

    def pack(self, weights: Mapping[str, Array], out: Block | None = None) -> Block:
        """Reorder the weights into the engine's own panels. Plans of an equal spec and dtype share the result, but
        those that train take only what a training plan packed.

        Args:
            weights: the canonical arrays by name, C-contiguous and of the plan's dtype; only read.
            out: uint8 [packed_nbytes] or more at a multiple of 64 (`aligned_empty`), else new memory.

        Returns:
            The packed weights: `out`, if it was given.

        Raises:
            ArgumentError: naming every array that does not fit.
        """
        refuse(check_is("weights", weights, Mapping, required=True))
        out = aligned_empty(self.packed_nbytes) if out is None else out
        shapes = self.spec.weight_shapes()
        refuse(
            *(f"{name} is missing" for name in shapes if name not in weights),
            *(check_plain(name, weights.get(name), shape, self.dtype) for name, shape in shapes.items()),
            check_block("out", out, self.packed_nbytes, written=True),
        )
        addresses = pointer_array(weights[name] for name in shapes)
        self._library.rnb_pack(self._handle, Weights(arrays=addresses, count=len(shapes)), address(out))
        return out

    def forward(self, x: Array, **memory: Any) -> None:
        """Run once. Takes what `bind` takes; results are in y, hn and cn, and in the tape."""
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
        tape: Block | None = None,
        generation: int = 0,
        dropout: Dropout | None = None,
        threads: int | None = None,
    ) -> Callable[[], None]:
        """Check the memory once, for a run that may be repeated over it with other contents.

        What is written may not overlap anything else, except that without a tape hn may be h0 itself and cn may be c0.

        Args:
            x: [T, N, I], any T and N strides, features contiguous; never read past a sequence's length.
            packed: what `pack` gave.
            workspace: uint8 [workspace_nbytes] or more at a multiple of 64; holds nothing between runs.
            y: [T, N, output_size], strides as for x; zero past a length. None if not wanted. With merge "none" the two
                directions lie side by side.
            lengths: int32 or int64 [N], each 0..T, in any order; None is T everywhere.
            h0, c0: initial states [L*D, N, H], contiguous; None is zeros. c0 is the LSTM's only.
            hn, cn: final states, the same shape; None if not wanted.
            tape: of a training plan: uint8 [tape_nbytes] or more at a multiple of 64; None is an evaluation. `backward`
                reads it and x, y, h0 and c0, so all of them are to stay as they are until then.
            generation: a number for the weights in `packed`, kept in the tape; `backward` is refused with another one.
            dropout: between layers; only with a tape.
            threads: at most so many for each run; None is `get_num_threads()`.

        Returns:
            A function without arguments that runs the plan and allocates nothing. It keeps the arrays alive.

        Raises:
            ArgumentError: naming every array that does not fit, at once.
        """
        refuse(
            check_rows("x", x, (self.T, self.N, self.spec.input_size), self.dtype),
            check_rows("y", y, (self.T, self.N, self.spec.output_size), self.dtype, written=True),
            *check_states({"h0": h0, "c0": c0}, self.spec, self.state_shape, self.dtype),
            *check_states({"hn": hn, "cn": cn}, self.spec, self.state_shape, self.dtype, written=True),
            check_lengths(lengths, self.N),
            check_block("packed", packed, self.packed_nbytes),
            check_block("workspace", workspace, self.workspace_nbytes, written=True),
            self._check_tape(tape, written=True),
            check_is("dropout", dropout, Dropout),
            "dropout was given without a tape; an evaluation has none" if dropout and tape is None else None,
        )
        generation = read_generation(generation)
        states = {"h0": h0, "c0": c0, "hn": hn, "cn": cn}
        arrays = {"packed": packed, "workspace": workspace, "tape": tape, "x": x, "y": y, "lengths": lengths, **states}
        args = forward_args(arrays, generation, dropout, threads)
        return Run(partial(self._library.rnb_forward, self._handle, args), (self, arrays))

    def backward(
        self,
        x: Array,
        *,
        packed: Block,
        workspace: Block,
        tape: Block,
        y: Array | None = None,
        generation: int = 0,
        h0: Array | None = None,
        c0: Array | None = None,
        dy: Array | None = None,
        dhn: Array | None = None,
        dcn: Array | None = None,
        dx: Array | None = None,
        dh0: Array | None = None,
        dc0: Array | None = None,
        dweights: Mapping[str, Array] | None = None,
        accumulate: Accumulate | Literal[0] = 0,
        threads: int | None = None,
    ) -> None:
        """Gradients of a scalar, given its gradients of y, hn and cn; those that are not asked for cost nothing.

        May run any number of times on one tape and gives the same bits. What is written may not overlap anything else,
        except that dh0 may be dhn itself and dc0 may be dcn.

        Args:
            x, y, h0, c0, generation: of the forward that filled the tape, unchanged.
            packed: of this spec and these weights, from a training plan.
            workspace: as in `bind`; may be the same.
            tape: filled by a plan of the same spec, T, N and dtype; only read.
            dy: [T, N, output_size], any T and N strides; never read past a length. None is zeros.
            dhn, dcn: [L*D, N, H], contiguous. None is zeros.
            dx: [T, N, I], any T and N strides; zero past a length. None if not wanted.
            dh0, dc0: [L*D, N, H], contiguous. None if not wanted.
            dweights: name -> array of the weight's shape, contiguous; only these are computed.
            accumulate: which of dweights and of dx, dh0, dc0 are added to, not written.
            threads: at most so many; None is `get_num_threads()`. The bits do not depend on it.

        Raises:
            ArgumentError: naming every array that does not fit, at once; a tape of another shape or generation.
        """
        refuse(check_is("dweights", dweights, Mapping))
        dweights, shapes = dict(dweights or {}), self.spec.weight_shapes()
        inputs, outputs = (self.T, self.N, self.spec.input_size), (self.T, self.N, self.spec.output_size)
        given, wanted = {"h0": h0, "c0": c0, "dhn": dhn, "dcn": dcn}, {"dh0": dh0, "dc0": dc0}
        refuse(
            check_rows("x", x, inputs, self.dtype),
            check_rows("y", y, outputs, self.dtype),
            check_rows("dy", dy, outputs, self.dtype),
            check_rows("dx", dx, inputs, self.dtype, written=True),
            *check_states(given, self.spec, self.state_shape, self.dtype),
            *check_states(wanted, self.spec, self.state_shape, self.dtype, written=True),
            *(f"there is no weight {name!r}" for name in dweights if name not in shapes),
            *(check_plain(f"d {name}", dweights.get(name), shapes[name], self.dtype, written=True) for name in shapes),
            check_block("packed", packed, self.packed_nbytes),
            check_block("workspace", workspace, self.workspace_nbytes, written=True),
            self._check_tape(tape),
        )
        generation = read_generation(generation)
        adds = whole("accumulate", accumulate, least=0, most=Accumulate.WEIGHTS | Accumulate.INPUTS)
        blocks = {"packed": packed, "workspace": workspace, "tape": tape}
        arrays = {**blocks, "x": x, "y": y, "dy": dy, "dx": dx, **given, **wanted}
        args = backward_args(arrays, [dweights.get(name) for name in shapes], generation, adds, threads)
        self._library.rnb_backward(self._handle, args)

    def _check_tape(self, tape: Block | None, written: bool = False) -> str | None:
        if tape is None:
            return None
        if not self.training:
            return "a tape was given, but this plan cannot train: Plan(spec, T, N, training=True)"
        return check_block("tape", tape, self.tape_nbytes, written)
