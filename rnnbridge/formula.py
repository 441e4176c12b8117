"""A layer's equations in words, as the field writes them. Knows specs and nothing of where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rnnbridge.activation import Activation
from rnnbridge.spec import RNNSpec


def formula_of(spec: RNNSpec, z: str) -> Iterator[str]:
    """The equations of one step, a line each; b is the sum of the biases that act there.

    Args:
        z: the sense of a GRU's z in the source, "keeps" or "takes".
    """
    yield from _FORMULAS[spec.cell](spec, " + b" if spec.bias != "none" else "", z)


def _lstm_formula(spec: RNNSpec, b: str, z: str) -> Iterator[str]:
    gates, candidate, output = map(_call, spec.activations)
    f = {"f=1-i": ";  f = 1 - i", "i=1-f": ";  i = 1 - f"}.get(spec.coupled or "", "")
    peephole = " + p c" if spec.peephole else ""
    yield f"i, f, o = {gates}(W x + U h{peephole}{b}){f};  g = {candidate}(W x + U h{b})"
    h = f"o {output}(c')"
    yield f"c' = f c + i g;  h' = {f'W_hr ({h})' if spec.proj_size else h}"


def _gru_formula(spec: RNNSpec, b: str, z: str) -> Iterator[str]:
    gates, candidate = map(_call, spec.activations)
    b_hn = " + b_hn" if spec.bias == "double" else ""
    inner = f"r * (U h{b_hn})" if spec.reset == "after" else "U (r * h)"
    yield f"r, z = {gates}(W x + U h{b});  n = {candidate}(W x + {inner}{b})"
    yield "h' = (1 - z) n + z h" if z == "keeps" else "h' = (1 - z) h + z n"


def _rnn_formula(spec: RNNSpec, b: str, z: str) -> Iterator[str]:
    yield f"h' = {_call(spec.activations[0])}(W x + U h{b})"


_FORMULAS: dict[str, Callable[[RNNSpec, str, str], Iterator[str]]] = {
    "lstm": _lstm_formula,
    "gru": _gru_formula,
    "rnn": _rnn_formula,
}


def _call(activation: Activation) -> str:
    return activation.name if activation.alpha is None else f"[{activation}]"
