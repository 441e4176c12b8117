"""The program beside a `.pdiparams` of Paddle 2, a `.pdmodel`: the tensors there are, and what its rnn operators have.

It is a ProgramDesc of paddle/fluid/framework/framework.proto, of which these fields are read. Never run.
"""

from __future__ import annotations

from pathlib import Path

from rnnbridge.converters.paddle_program import NAME_OF_A_DROPOUT_STATE, TRANSPOSED, Operator, Program, checked
from rnnbridge.files.protobuf import Message, parse

_BLOCKS = 1  # of a ProgramDesc
_VARIABLES, _OPERATORS = 3, 4  # of a BlockDesc
_NAME, _TYPE, _PERSISTABLE = 1, 2, 3  # of a VarDesc
_KIND, _LOD_TENSOR, _TENSOR, _DIMS = 1, 3, 1, 2  # of a VarType, and of what is in it
_INPUTS, _OUTPUTS, _OPERATOR, _ATTRIBUTES = 1, 2, 3, 4  # of an OpDesc
_PARAMETER, _ARGUMENTS = 1, 2  # of an OpDesc.Var
_INT, _TEXT, _INTS, _FLAG = 3, 5, 6, 10  # of an OpDesc.Attr, whose name is field 1
_IS_A_TENSOR = 7


def read_older_program(path: Path) -> Program:
    """Read a program. Raises FormatError where it is damaged or none."""
    whole = parse(path.read_bytes(), str(path))
    blocks = list(whole.messages(_BLOCKS))
    operators = [one for block in blocks for one in block.messages(_OPERATORS)]
    made_by = {name: one for one in operators for names in _arguments(one, _OUTPUTS).values() for name in names}
    shapes = {}
    for variable in (one for block in blocks for one in block.messages(_VARIABLES)):
        kind = variable.message(_TYPE)
        if kind.number(_KIND) == _IS_A_TENSOR and variable.number(_PERSISTABLE):
            shapes[variable.text(_NAME)] = tuple(kind.message(_LOD_TENSOR).message(_TENSOR).listed(_DIMS))
    found = tuple(_rnn(one, made_by) for one in operators if one.text(_OPERATOR) == "rnn")
    return checked(shapes, found, str(path))


def _arguments(operator: Message, side: int) -> dict[str, list[str]]:
    """What an operator takes or makes: the name of a place -> values."""
    return {one.text(_PARAMETER): one.texts(_ARGUMENTS) for one in operator.messages(side)}


def _rnn(operator: Message, made_by: dict[str, Message]) -> Operator:
    given, made = _arguments(operator, _INPUTS), _arguments(operator, _OUTPUTS)
    said = {one.text(_NAME): one for one in operator.messages(_ATTRIBUTES)}
    nothing = parse(b"", operator.where)
    before = made_by.get("".join(given.get("Input", [])), nothing)
    axes = {one.text(_NAME): one.listed(_INTS) for one in before.messages(_ATTRIBUTES)}
    transposed = before.text(_OPERATOR) == "transpose2" and axes.get("axis") == TRANSPOSED
    return Operator(
        name="".join(made.get("DropoutState", ["rnn"])).removesuffix(NAME_OF_A_DROPOUT_STATE),
        mode=said.get("mode", nothing).text(_TEXT),
        both_ways=said.get("is_bidirec", nothing).number(_FLAG) == 1,
        num_layers=said.get("num_layers", nothing).signed(_INT),
        batch_first=transposed,
        weights=tuple(given.get("WeightList", [])),
        because=f"the program {'transposes' if transposed else 'does not transpose'} what the operator is given",
    )
