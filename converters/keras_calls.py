"""The calls of a model's layers in the order of computation, as a config of Keras 1 or 2 has them.

A damaged graph ends early: others say what is wrong with it. Knows no class of layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Key = tuple[str, int, int]  # a tensor: its layer, the number of the call, which of the outputs


def settings_of_entry(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """A layer's settings, none where its config is something else."""
    config = entry.get("config")
    return config if isinstance(config, Mapping) else {}


def entries_of(entry: Mapping[str, Any]) -> list[Any]:
    """The layers of a container; old Sequential models are a bare list."""
    config = entry.get("config")
    found = config.get("layers") if isinstance(config, Mapping) else config
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def name_of_entry(entry: Mapping[str, Any]) -> str:
    """The name by which calls name a layer."""
    return str(entry.get("name") or settings_of_entry(entry).get("name") or entry.get("class_name"))


@dataclass(frozen=True)
class Call:
    """One call of a layer.

    Args:
        name, number, entry: the layer, and which of its calls this is.
        takes: the tensors that it takes by position.
        needs: the calls that must come before, as their first tensors.
        states: whether it is given initial states by keyword.
        mask: the tensor given as its mask.
    """

    name: str
    number: int
    entry: Mapping[str, Any]
    takes: tuple[Key, ...]
    needs: tuple[Key, ...]
    states: bool = False
    mask: Key | None = None


@dataclass(frozen=True)
class Graph:
    """A container's inputs and outputs, the calls in it, each after those whose results it takes; its layers' names."""

    inputs: tuple[Key, ...]
    outputs: tuple[Key, ...]
    calls: tuple[Call, ...]
    names: tuple[str, ...]


def graph_of(entry: Mapping[str, Any]) -> Graph:
    """The graph of a functional model or a Sequential."""
    entries, config = entries_of(entry), settings_of_entry(entry)
    if "output_layers" not in config:
        return _chain(entries)
    ends = {end: list(_tensors(config.get(end))) for end in ("input_layers", "output_layers")}
    calls = {name_of_entry(one): one["inbound_nodes"] for one in entries if isinstance(one.get("inbound_nodes"), list)}
    used = [key for end in ends.values() for key in end] + list(_tensors(list(calls.values())))
    from_one = {name for name, node, _ in used if node >= len(calls.get(name, [])) > 0}

    def moved(key: Key) -> Key:
        """Older versions count the making of a nested model as its first call."""
        return (key[0], key[1] - (key[0] in from_one), key[2])

    waiting: dict[Key, Call] = {}
    for one in entries:
        for number, call in enumerate(calls.get(name_of_entry(one), []) or [[]]):
            takes = tuple(moved(key) for key in _taken(call))
            mask = next(map(moved, _keyword(call, "mask")), None)
            states = any(_keyword(call, "initial_state"))
            needs = tuple((*moved(key)[:2], 0) for key in _tensors(call))
            waiting[name_of_entry(one), number, 0] = Call(name_of_entry(one), number, one, takes, needs, states, mask)
    inputs, outputs = (tuple(map(moved, keys)) for keys in ends.values())
    return Graph(inputs, outputs, tuple(_ordered(waiting)), tuple(map(name_of_entry, entries)))


def _chain(entries: list[Mapping[str, Any]]) -> Graph:
    entries = [one for one in entries if one.get("class_name") != "InputLayer"]  # what comes from outside is as it is
    keys: list[Key] = [("", 0, 0), *((f"{number} {name_of_entry(one)}", 0, 0) for number, one in enumerate(entries))]
    calls = [
        Call(key[0], 0, one, (before,), (before,)) for one, before, key in zip(entries, keys, keys[1:], strict=False)
    ]
    return Graph((keys[0],), (keys[-1],), tuple(calls), tuple(call.name for call in calls))


def _ordered(waiting: Mapping[Key, Call]) -> Iterator[Call]:
    missing = {key: {one for one in call.needs if one in waiting} for key, call in waiting.items()}
    wanted: dict[Key, list[Key]] = {}
    for key, needs in missing.items():
        for one in needs:
            wanted.setdefault(one, []).append(key)
    ready = [key for key, needs in missing.items() if not needs]
    for key in ready:
        yield waiting[key]
        for later in wanted.get(key, []):
            missing[later].discard(key)
            if not missing[later]:
                ready.append(later)


def _taken(call: Any) -> Iterator[Key]:
    """The tensors that a call takes by position."""
    for one in _positions(call):
        if _is_tensor(one):
            yield one[0], one[1], one[2]


def _keyword(call: Any, key: str) -> Iterator[Key]:
    """The tensors that a call is given by a keyword."""
    for one in _positions(call):
        if _is_tensor(one) and len(one) > 3 and isinstance(one[3], Mapping):
            yield from _tensors([one[3].get(key)])


def _positions(call: Any) -> list[Any]:
    if not isinstance(call, list):
        return []
    return [call] if _is_tensor(call) else call


def _tensors(value: Any) -> Iterator[Key]:
    """Every tensor in a value."""
    if _is_tensor(value):
        yield value[0], value[1], value[2]
        value = value[3:]
    for one in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _tensors(one)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 2 and [type(one) for one in value[:3]] == [str, int, int]
