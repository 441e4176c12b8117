"""TensorFlow 1's files, read and written without TensorFlow: checkpoints, SavedModels, frozen graphs, bare arrays.

A checkpoint holds variables, and the graph beside it what the cells do with them. Keras's checkpoints, which name
objects, are another converter's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rnnbridge.catalogue import Format, Judge, Settings, WriteOptions, Written
from rnnbridge.converters import tensorflow_graph as graphs
from rnnbridge.converters.tensorflow_facts import SAVED, facts_beside, facts_of, index_of
from rnnbridge.converters.tensorflow_judge import run_layer
from rnnbridge.converters.tensorflow_layer import Held, read_layers
from rnnbridge.converters.tensorflow_names import groups_of, others_in
from rnnbridge.converters.tensorflow_rows import WRITTEN
from rnnbridge.converters.tensorflow_write import written_arrays
from rnnbridge.files.tensor_bundle import TensorBundle, bundle_arrays, bundle_bytes, is_index, names_objects, shard_of
from rnnbridge.files.zip import member_names, npy_bytes, read_members, read_npy, write_members
from rnnbridge.weights import Bundle

Array = NDArray[Any]
_NPY = ".npy"


def sniff(path: Path, head: bytes) -> bool:
    """Whether a file is a checkpoint's index, or a SavedModel with variables of names."""
    index = index_of(path) if graphs.looks_saved(head) else path
    return index.is_file() and is_index(index) and not names_objects(index)


def read(path: Path, settings: Settings) -> Bundle:
    """Read a checkpoint by its index, or a SavedModel by its saved_model.pb, and what the graph beside it says."""
    bundle = TensorBundle(index_of(path) if path.suffix == ".pb" else path)
    arrays = dict(bundle_arrays(bundle))
    narrow = frozenset(name for name in arrays if bundle.is_bfloat16(name))
    return _read(path, settings, Held(arrays, narrow, facts_beside(path)), "tensorflow")


def locate(path: Path) -> Path | None:
    """The file that a SavedModel's folder, or a checkpoint's name without its ending, stands for."""
    places = () if _is_file(path) else (path / SAVED, Path(f"{path}.index"))
    return next(filter(_is_file, places), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have
        return False


def sniff_frozen(path: Path, head: bytes) -> bool:
    """Whether a file is a graph whose variables are constants."""
    return graphs.looks_frozen(head)


def read_frozen(path: Path, settings: Settings) -> Bundle:
    """Read a frozen graph: its constants are the variables."""
    graph = graphs.read_frozen(path)
    arrays, narrow = {}, set()
    for node in graph.nodes.values():
        array = graph.constant(node) if node.op == "Const" else None
        if array is not None and array.ndim:
            arrays[node.name] = array
            narrow |= {node.name} if graph.is_bfloat16(node) else set()
    return _read(path, settings, Held(arrays, frozenset(narrow), facts_of(graph)), "tensorflow-graph")


def sniff_npz(path: Path, head: bytes) -> bool:
    """Whether an archive of arrays has the names of variables of recurrent cells."""
    names = [name.removesuffix(_NPY) for name in member_names(path, head)]
    return bool(groups_of(names, {}))


def read_npz(path: Path, settings: Settings) -> Bundle:
    """Read arrays under the names of a checkpoint, as numpy.savez writes them; there is no graph."""
    members = read_members(path)
    arrays = {
        name.removesuffix(_NPY): read_npy(content, f"{path}: {name}")
        for name, content in members.items()
        if name.endswith(_NPY)
    }
    return _read(path, settings, Held(arrays), "tensorflow-npz")


def write(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write a checkpoint of one shard; the layers' names become scopes."""
    arrays, written = written_arrays(bundle, options)
    index, shard = bundle_bytes(arrays)
    shard_of(path, 0, 1).write_bytes(shard)
    path.write_bytes(index)
    return written


def write_npz(bundle: Bundle, path: Path, options: WriteOptions) -> Written:
    """Write the same arrays as an archive for numpy.load."""
    arrays, written = written_arrays(bundle, options)
    write_members(path, {f"{name}{_NPY}": npy_bytes(np.asarray(array)) for name, array in arrays.items()})
    return written


FORMATS = (
    Format(
        name="tensorflow",
        framework="tensorflow",
        suffixes=(".ckpt.index", ".index"),
        reads="TensorFlow 1 checkpoints and SavedModels, with the graph beside them where there is one",
        writes="checkpoints: an .index and its .data file",
        sniff=sniff,
        read=read,
        write=write,
        rows=WRITTEN,
        judges=(Judge("TensorFlow", "tensorflow", run_layer),),
        locate=locate,
    ),
    Format(
        name="tensorflow-graph",
        framework="tensorflow",
        suffixes=(".pb",),
        reads="frozen graphs of TensorFlow 1",
        writes="",
        sniff=sniff_frozen,
        read=read_frozen,
    ),
    Format(
        name="tensorflow-npz",
        framework="tensorflow",
        suffixes=(".tf.npz",),
        reads="arrays under the names of a TensorFlow 1 checkpoint",
        writes="arrays under the names of a checkpoint",
        sniff=sniff_npz,
        read=read_npz,
        write=write_npz,
        rows=WRITTEN,
    ),
)


def _read(path: Path, settings: Settings, held: Held, format_name: str) -> Bundle:
    kinds = {scope: next(iter(said)).kind for scope, said in (held.facts or {}).items()}
    groups = groups_of(held.arrays, kinds)
    layers = read_layers(held, str(path), groups, settings)
    used = {name for group in groups.values() for name in group.used}
    others = [f"{scope} is a cell that no RNNSpec describes; it is left out" for scope in others_in(held.arrays)]
    rest = {name: array for name, array in held.arrays.items() if name not in used}
    return Bundle(layers, rest, format=format_name, path=path, notices=tuple(others))
