"""The program beside a `.pdiparams`, a `.json` of Paddle 3: which tensors there are, and which its rnn operators have.

Fields are those that Paddle's PIR serialiser writes: an operator is {"#": kind, "A": attributes, "I": inputs, "O":
outputs}, a value is {"%": number}, a parameter is an operator "p". Knows no numbers. A program is never run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnbridge.errors import FormatError

TRANSPOSED = [1, 0, 2]
_INPUT, _WEIGHTS, _DROPOUT_STATE = 0, 2, 4  # inputs of an rnn operator
NAME_OF_A_DROPOUT_STATE = ".dropout_state__non_persistable"


@dataclass(frozen=True)
class Operator:
    """An rnn operator: its name, its attributes, and the names of its weights, all matrices before all biases.

    `because` says why the order of sequences is assumed, "" if it is known.
    """

    name: str
    mode: str
    both_ways: bool
    num_layers: int
    batch_first: bool
    weights: tuple[str, ...]
    because: str = ""


@dataclass(frozen=True)
class Program:
    """The shapes of what the `.pdiparams` holds, by name in its order; and the rnn operators."""

    shapes: Mapping[str, tuple[int, ...]]
    operators: tuple[Operator, ...]


def read_program(path: Path) -> Program:
    """Read a program.

    Raises:
        FormatError: no JSON, no program of Paddle 3, or one in which something is not where it should be.
    """
    try:
        whole = json.loads(path.read_bytes())
        if whole["base_code"]["magic"] != "pir":
            raise FormatError(f"{path}: no program of Paddle 3")
        operators = list(_operators(whole["program"]))
        made_by = {value["%"]: one for one in operators for value in _outputs(one)}
        shapes = dict(_parameters(operators))
        found = tuple(_rnn(one, made_by) for one in operators if str(one["#"]).endswith(".rnn"))
    except FormatError:
        raise
    except Exception as error:  # a damaged program fails in a dozen ways
        raise FormatError(f"{path}: damaged program: {type(error).__name__} {error}") from error
    return checked(shapes, found, str(path))


def checked(shapes: Mapping[str, tuple[int, ...]], found: tuple[Operator, ...], where: str) -> Program:
    """A program whose operators' weights are among the parameters. Raises FormatError where they are not."""
    if unknown := [name for one in found for name in one.weights if name not in shapes]:
        raise FormatError(f"{where}: an rnn operator has the weight {unknown[0]!r}, which is no parameter")
    return Program({name: shapes[name] for name in sorted(shapes)}, found)


def _operators(program: Any) -> Iterator[Any]:
    """Every operator in every region and block, the outer ones first."""
    waiting = list(program["regions"])
    while waiting:
        for block in waiting.pop(0)["blocks"]:
            for one in block["ops"]:
                yield one
                waiting += one.get("regions", [])


def _outputs(operator: Any) -> list[Any]:
    made = operator.get("O", [])
    return made if isinstance(made, list) else [made]


def _parameters(operators: list[Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for one in operators:
        if one["#"] == "p" and one["OA"][0]:  # its first property is whether it is kept
            name, shape = one["A"][3], one["O"]["TT"]["D"][1]
            if not isinstance(name, str) or not all(type(extent) is int for extent in shape):
                raise ValueError(f"parameter {name!r} {shape!r}")
            yield name, tuple(shape)


def _rnn(operator: Any, made_by: Mapping[int, Any]) -> Operator:
    said, given = _attributes(operator), operator["I"]
    before = made_by[given[_INPUT]["%"]]
    own = str(before["#"]).endswith(".transpose") and _attributes(before).get("struct_name") == said.get("struct_name")
    weights = made_by[given[_WEIGHTS]["%"]]["I"]
    return Operator(
        name=str(made_by[given[_DROPOUT_STATE]["%"]]["A"][3]).removesuffix(NAME_OF_A_DROPOUT_STATE),
        mode=str(said["mode"]),
        both_ways=said["is_bidirec"] is True,
        num_layers=int(said["num_layers"]),
        batch_first=own and [extent["D"] for extent in _attributes(before)["perm"]] == TRANSPOSED,
        weights=tuple(str(made_by[value["%"]]["A"][3]) for value in weights),
    )


def _attributes(operator: Any) -> dict[str, Any]:
    return {one["N"]: one["AT"]["D"] for one in operator["A"]}
