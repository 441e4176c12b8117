"""Pickles read as data: a machine that builds plain values, and inert placeholders for everything else. Runs nothing.

The standard library takes a pickle apart (`pickletools.genops`); what its opcodes build is decided here. A class or
function that a pickle names is never looked up. Knows nothing of tensors: its user says what a call or a persistent id
stands for.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

from rnnbridge.errors import FormatError

_MARK: Any = object()
_KEYS = (str, int, float, bytes, type(None))  # hashing anything nested could overflow the C stack
_PLAIN = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,
    "MARK": lambda: _MARK,
}
_PUSHES_ITS_ARGUMENT = frozenset(
    "BININT BININT1 BININT2 INT LONG LONG1 LONG4 BINFLOAT FLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 UNICODE "
    "BINSTRING SHORT_BINSTRING STRING BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8".split()
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True)
class Global:
    """A class or function by its name. It was not imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Inert:
    """What a pickle would have made by calling `what`: its arguments, its state, and the items put into it."""

    what: Global
    arguments: tuple[Any, ...] = field(default=(), repr=False)
    state: Any = field(default=None, repr=False)
    items: dict[Any, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Meaning:
    """What a pickle's references stand for.

    Args:
        call: (what, arguments) -> its value, or None for an `Inert`.
        persistent: a persistent id -> its value.
    """

    call: Callable[[Global, tuple[Any, ...]], Any]
    persistent: Callable[[Any], Any]


NOTHING = Meaning(call=lambda what, arguments: None, persistent=lambda identity: None)


def unpickle(stream: IO[bytes], where: str, meaning: Meaning = NOTHING) -> Any:
    """Read one pickle from where the stream stands; it then stands behind the pickle.

    Sets become lists. Items whose key is no text, number, bytes or None are left out.

    Raises:
        FormatError: beginning with `where`: truncated, damaged, or an opcode that no writer of plain data uses.
    """
    machine = _Machine(meaning)
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            machine.step(opcode.name, argument)
        (value,) = machine.stack
    except FormatError:
        raise
    except Exception as error:  # a damaged pickle fails in a dozen ways
        raise FormatError(f"{where}: damaged pickle: {error or type(error).__name__}") from error
    return value


class _Machine:
    """The stack and memo of one pickle."""

    def __init__(self, meaning: Meaning) -> None:
        self.stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._meaning = meaning

    def step(self, name: str, argument: Any) -> None:
        """Do what one opcode says."""
        push = self.stack.append
        if name in _PUSHES_ITS_ARGUMENT:
            push(argument)
        elif name in _PLAIN:
            push(_PLAIN[name])
        elif name in _EMPTY:
            push(_EMPTY[name]())
        elif name in _TUPLES:
            push(tuple(self._pop(_TUPLES[name])))
        elif name in ("PROTO", "FRAME", "STOP"):
            pass
        else:
            action = getattr(self, f"_{name.lower()}", None)
            if action is None:
                raise ValueError(f"opcode {name}, which no file of plain data has")
            action(argument)

    def _pop(self, count: int) -> list[Any]:
        taken = self.stack[len(self.stack) - count :] if count <= len(self.stack) else []
        if len(taken) < count or any(one is _MARK for one in taken):
            raise ValueError("its stack is empty where a value is taken")
        del self.stack[len(self.stack) - count :]
        return taken

    def _pop_to_mark(self) -> list[Any]:
        taken = []
        while (value := self.stack.pop()) is not _MARK:
            taken.append(value)
        return taken[::-1]

    def _pop_mark(self, _: None) -> None:
        self._pop_to_mark()

    def _pop_one(self) -> Any:
        return self._pop(1)[0]

    def _dup(self, _: None) -> None:
        self.stack.append(self.stack[-1])

    def _tuple(self, _: None) -> None:
        self.stack.append(tuple(self._pop_to_mark()))

    def _list(self, _: None) -> None:
        self.stack.append(self._pop_to_mark())

    _frozenset = _list

    def _dict(self, _: None) -> None:
        items = self._pop_to_mark()
        self.stack.append({})
        self._put(items)

    def _append(self, _: None) -> None:
        self._extend(self._pop(1))

    def _appends(self, _: None) -> None:
        self._extend(self._pop_to_mark())

    _additems = _appends

    def _extend(self, values: list[Any]) -> None:
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(values)
        elif not isinstance(self.stack[-1], Inert):
            raise TypeError(f"values are appended to a {type(self.stack[-1]).__name__}")

    def _setitem(self, _: None) -> None:
        self._put(self._pop(2))

    def _setitems(self, _: None) -> None:
        self._put(self._pop_to_mark())

    def _put(self, items: list[Any]) -> None:
        target = self.stack[-1].items if isinstance(self.stack[-1], Inert) else self.stack[-1]
        if not isinstance(target, dict):
            raise TypeError(f"items are put into a {type(target).__name__}")
        pairs = zip(items[::2], items[1::2], strict=True)
        target.update((key, value) for key, value in pairs if isinstance(key, _KEYS))

    def _memoize(self, _: None) -> None:
        self._binput(len(self._memo))

    def _binput(self, index: int) -> None:
        if self.stack[-1] is _MARK:
            raise ValueError("a mark is remembered")
        self._memo[index] = self.stack[-1]

    _put_ = _binput
    _long_binput = _binput

    def _binget(self, index: int) -> None:
        self.stack.append(self._memo[index])

    _get = _binget
    _long_binget = _binget

    def _binpersid(self, _: None) -> None:
        self.stack.append(self._meaning.persistent(self._pop_one()))

    def _global(self, argument: str) -> None:
        self.stack.append(Global(*argument.split(" ", 1)))

    def _stack_global(self, _: None) -> None:
        module, name = self._pop(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("a class is named by something else than two texts")
        self.stack.append(Global(module, name))

    def _reduce(self, _: None) -> None:
        self._call(*self._pop(2))

    _newobj = _reduce

    def _newobj_ex(self, _: None) -> None:
        what, arguments, _named = self._pop(3)
        self._call(what, arguments)

    def _call(self, what: Any, arguments: Any) -> None:
        if not isinstance(arguments, tuple):
            raise TypeError(f"a call has a {type(arguments).__name__} for arguments")
        known = what if isinstance(what, Global) else Global("", type(what).__name__)
        value = self._meaning.call(known, arguments)
        self.stack.append(Inert(known, arguments) if value is None else value)

    def _build(self, _: None) -> None:
        state = self._pop_one()
        if isinstance(self.stack[-1], Inert):
            self.stack[-1].state = state
