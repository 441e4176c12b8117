"""Activation functions by name, with their constants. Knows no framework's spelling of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rnnbridge.errors import SpecError

# name -> the constants it takes. Two frameworks' "hard_sigmoid" differ only in alpha, so the name alone says nothing.
CONSTANTS: dict[str, tuple[str, ...]] = {
    "sigmoid": (),
    "tanh": (),
    "relu": (),
    "linear": (),
    "hard_sigmoid": ("alpha", "beta"),  # clip(alpha x + beta, 0, 1)
    "affine": ("alpha", "beta"),  # alpha x + beta
    "leaky_relu": ("alpha",),  # x if x >= 0 else alpha x
    "thresholded_relu": ("alpha",),  # x if x > alpha else 0
    "scaled_tanh": ("alpha", "beta"),  # alpha tanh(beta x)
    "elu": ("alpha",),  # x if x >= 0 else alpha (exp(x) - 1)
    "selu": (),
    "softsign": (),  # x / (1 + |x|)
    "softplus": (),  # log(1 + exp(x))
    "exponential": (),
    "silu": (),  # x sigmoid(x)
    "gelu": (),  # x Phi(x), the exact form
}
_SPELLING = re.compile(r"^\s*([a-z_]+)\s*(?:\(([^()]*)\))?\s*$")


@dataclass(frozen=True)
class Activation:
    """One activation function: a name of `CONSTANTS` and exactly the constants that it takes.

    Raises:
        SpecError: unknown name, or a constant missing or not wanted.
    """

    name: str
    alpha: float | None = None
    beta: float | None = None

    def __post_init__(self) -> None:
        if self.name not in CONSTANTS:
            raise SpecError(f"unknown activation {self.name!r}; known: {', '.join(CONSTANTS)}")
        wanted = CONSTANTS[self.name]
        given = tuple(key for key in ("alpha", "beta") if getattr(self, key) is not None)
        if given != wanted:
            raise SpecError(f"activation {self.name!r} takes {_list(wanted)}, not {_list(given)}")

    @classmethod
    def parse(cls, text: str | Activation) -> Activation:
        """Read the spelling that `str()` gives: "tanh", "hard_sigmoid(0.2, 0.5)"."""
        if isinstance(text, Activation):
            return text
        if not isinstance(text, str):
            raise SpecError(f"an activation is {text!r}; it is a name such as 'tanh', or an Activation")
        match = _SPELLING.match(text)
        if match is None:
            raise SpecError(f"cannot read the activation {text!r}; write it as 'tanh' or 'hard_sigmoid(0.2, 0.5)'")
        name, inside = match.groups()
        try:
            numbers = [float(part) for part in inside.split(",")] if inside and inside.strip() else []
        except ValueError:
            raise SpecError(f"the constants of the activation {text!r} are not numbers") from None
        if len(numbers) > 2:
            raise SpecError(f"activation {text!r} has {len(numbers)} constants; none takes more than two")
        return cls(name, *numbers)

    def __str__(self) -> str:
        constants = [repr(value) for value in (self.alpha, self.beta) if value is not None]
        return f"{self.name}({', '.join(constants)})" if constants else self.name

    @property
    def is_complementary(self) -> bool:
        """Whether 1 - f(a) = f(-a): what lets a gate be turned round by negating its rows."""
        return self.name == "sigmoid" or (self.name == "hard_sigmoid" and self.beta == 0.5)


def _list(names: tuple[str, ...]) -> str:
    return " and ".join(names) or "no constants"
