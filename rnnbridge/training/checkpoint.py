"""A training in a file, to go on from with the same bits: `save_checkpoint`, `load_checkpoint`.

One safetensors file, so that it is there as a whole or not at all: the arrays as tensors, all else as JSON in its
metadata. Nothing in it is executed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rnnbridge.engine.arguments import whole
from rnnbridge.errors import FileAccessError, FormatError
from rnnbridge.files.atomic import replacing
from rnnbridge.files.safetensors_file import Tensor, read_safetensors, safetensors_bytes
from rnnbridge.training.arguments import real
from rnnbridge.training.history import History
from rnnbridge.training.run import Run
from rnnbridge.training.sequential import recurrent_layers, trainable

Array = NDArray[Any]
_KEY, _VERSION = "rnnbridge.training", 1


def save_checkpoint(path: Path, run: Run) -> None:
    """Write where a training stands, in place of what was there.

    Raises:
        FileAccessError: the folder is missing or cannot be written, the disk is full.
    """
    tensors = dict(_tensors(run))
    metadata = {_KEY: json.dumps(_facts(run, tensors))}
    content = safetensors_bytes({name: Tensor(a.dtype.name, a) for name, a in tensors.items()}, metadata)
    with replacing(path, overwrite=True) as draft:
        draft.write_bytes(content)


def load_checkpoint(path: Path, run: Run) -> None:
    """Put a training where a checkpoint says; it was begun with the same model, data, optimiser and schedule.

    Raises:
        FileAccessError: it cannot be read.
        FormatError: it is no checkpoint, or one of another training, which is then as it was.
    """
    facts, tensors = _read(path)
    try:
        _check(path, facts, tensors, run)
        _restore(facts, tensors, run)
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FormatError(f"{path}: a damaged checkpoint: {error!r}") from error


def _facts(run: Run, tensors: dict[str, Array]) -> dict[str, Any]:
    """All that is no array."""
    return {
        "version": _VERSION,
        "kinds": _kinds(run),
        "batches": run.batches,
        "seed": run.seed,
        "epoch": run.epoch,
        "batch": run.batch,
        "total": run.total,
        "count": run.count,
        "history": dict(run.history),
        "schedule": run.schedule.state() if run.schedule else {},
        "stopping": {"best": run.stopping.best, "bad": run.stopping.bad} if run.stopping else {},
        "dropout": {at: [net.dropout_seed, net.dropout_offset] for at, net in recurrent_layers(run.model)},
        "state": _named(run.state, "state", tensors),
    }


def _tensors(run: Run) -> Iterator[tuple[str, Array]]:
    for name, array in run.model.weights.items():
        yield f"model/{name}", array
    for name, slots in run.optimiser.state.items():
        for slot, array in slots.items():
            yield f"optimiser/{name}/{slot}", array
    if run.stopping:
        for name, array in run.stopping.weights.items():
            yield f"best/{name}", array


def _kinds(run: Run) -> dict[str, str]:
    """What has to be the same when the training goes on."""
    parts = {"optimiser": run.optimiser, "schedule": run.schedule, "early stopping": run.stopping}
    return {name: "none" if part is None else type(part).__name__ for name, part in parts.items()}


def _named(state: Any, name: str, tensors: dict[str, Array]) -> Any:
    """The state's form with names for its arrays, which are added to the tensors."""
    if isinstance(state, tuple):
        return [_named(part, f"{name}/{k}", tensors) for k, part in enumerate(state)]
    if state is None:
        return None
    tensors[name] = state
    return name


def _filled(form: Any, tensors: Mapping[str, Array]) -> Any:
    """The reverse of `_named`."""
    if isinstance(form, list):
        return tuple(_filled(part, tensors) for part in form)
    return None if form is None else tensors[form]


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        contents = read_safetensors(path)
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        facts = json.loads(contents.metadata[_KEY])
        version = facts["version"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise FormatError(f"{path} is a safetensors file, but no checkpoint of a training") from None
    if version != _VERSION:
        raise FormatError(f"{path} is a checkpoint of version {version!r}; this rnnbridge reads version {_VERSION}")
    return facts, {name: tensor.array.copy() for name, tensor in contents.tensors.items()}


def _check(path: Path, facts: dict[str, Any], tensors: dict[str, Array], run: Run) -> None:
    """Raise FormatError with everything in which the checkpoint's training is another one."""
    if missing := _facts(run, {}).keys() - facts.keys():
        raise FormatError(f"{path}: a damaged checkpoint, without {', '.join(sorted(missing))}")
    problems = [
        f"its {name} is {facts['kinds'][name]}, not {kind}"
        for name, kind in _kinds(run).items()
        if facts["kinds"][name] != kind
    ]
    if facts["batches"] != run.batches:
        problems.append(f"its epochs have {facts['batches']} batches, not {run.batches}")
    if facts["seed"] != run.seed:
        problems.append(f"the order of its data is of seed {facts['seed']}, not {run.seed}")
    if facts["dropout"].keys() != {at for at, _ in recurrent_layers(run.model)}:
        problems.append(f"its recurrent layers are at {', '.join(facts['dropout'])}")
    theirs = {name: _kind(array) for name, array in tensors.items() if name.startswith("model/")}
    ours = {f"model/{name}": _kind(array) for name, array in run.model.weights.items()}
    problems += [f"{name} is {theirs.get(name)}, not {kind}" for name, kind in ours.items() if theirs.get(name) != kind]
    problems += [f"{name} is not in the model" for name in theirs if name not in ours]
    problems += [
        f"model/{name} has other numbers, and is frozen here"
        for name, array in run.model.weights.items()
        if not array.flags.writeable and array.tobytes() != tensors.get(f"model/{name}", array).tobytes()
    ]
    for name, array in tensors.items():
        if name.startswith(("optimiser/", "best/")):
            weight = "model/" + name.split("/")[1]
            fits = _kind(array) == ours.get(weight) or (name.endswith("/step") and _kind(array) == "int64 []")
            problems += [] if fits else [f"{name} is {_kind(array)}"]
    if problems:
        raise FormatError(f"{path} is a checkpoint of another training:\n  - " + "\n  - ".join(problems))


def _kind(array: Array) -> str:
    return f"{array.dtype} {list(array.shape)}"


def _check_facts(facts: dict[str, Any], run: Run) -> None:
    """Raise ValueError, TypeError or KeyError where a number is none, or contradicts another."""
    epoch, batch = whole("epoch", facts["epoch"], least=0), whole("batch", facts["batch"], least=0, most=run.batches)
    whole("count", facts["count"], least=0)
    history = History(facts["history"])
    numbers = [facts["total"], *(number for numbers in history.values() for number in numbers)]
    lengths = {name: len(history[name]) for name in ("loss", "lr", "updates", "step_loss")}
    if lengths != {"loss": epoch, "lr": epoch, "updates": epoch, "step_loss": epoch * run.batches + batch}:
        raise ValueError(f"{epoch} epochs and {batch} batches, but a history of {lengths}")
    if run.schedule:
        if facts["schedule"].keys() != run.schedule.state().keys():
            raise ValueError(f"schedule has {', '.join(facts['schedule'])}")
        numbers += [number for number in facts["schedule"].values() if number is not None]
    if run.stopping:
        whole("bad", facts["stopping"]["bad"], least=0)
        numbers += [facts["stopping"]["best"]] if facts["stopping"]["best"] is not None else []
    for number in numbers:
        real("a number of the training", number, least=-math.inf)


def _restore(facts: dict[str, Any], tensors: dict[str, Array], run: Run) -> None:
    _check_facts(facts, run)
    state, history = _filled(facts["state"], tensors), History(facts["history"])
    epoch, batch, total, count = (facts[name] for name in ("epoch", "batch", "total", "count"))
    dropout = {at: [whole("dropout", one, 0, 2**64 - 1) for one in pair] for at, pair in facts["dropout"].items()}
    for at, net in recurrent_layers(run.model):
        net.dropout_seed, net.dropout_offset = dropout[at]
    for name, array in trainable(run.model).items():
        array[...] = tensors[f"model/{name}"]
    run.optimiser.state = {}
    for name, array in tensors.items():
        if name.startswith("optimiser/"):
            _, weight, slot = name.split("/")
            run.optimiser.state.setdefault(weight, {})[slot] = array
    if run.schedule:
        run.schedule.restore(facts["schedule"])
    if run.stopping:
        run.stopping.best, run.stopping.bad = facts["stopping"]["best"], facts["stopping"]["bad"]
        run.stopping.weights = {n.removeprefix("best/"): a for n, a in tensors.items() if n.startswith("best/")}
    run.history, run.state = history, state
    run.epoch, run.batch, run.total, run.count = epoch, batch, total, count
