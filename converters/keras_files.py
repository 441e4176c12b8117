"""The Keras file formats: what is read, what is written, and who judges. Reads without TensorFlow and without Keras."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rnnbridge.catalogue import Format, Settings
from rnnbridge.converters.keras_checkpoint import others, read_objects, version_of
from rnnbridge.converters.keras_judges import JUDGES
from rnnbridge.converters.keras_memory import Memory
from rnnbridge.converters.keras_rows import CUDNN_ROWS, LAYER_ROWS
from rnnbridge.converters.keras_source import contents, open_file, other_arrays
from rnnbridge.converters.keras_v3 import CONFIG, WEIGHTS, ClassedFile
from rnnbridge.converters.keras_version import Version
from rnnbridge.converters.keras_write import write, write_old
from rnnbridge.errors import FormatError
from rnnbridge.files.hdf5 import SIGNATURE, Group
from rnnbridge.files.tensor_bundle import is_index, names_objects
from rnnbridge.files.zip import member_names
from rnnbridge.weights import Bundle

_OPTIMIZER = "optimizer_weights"


def is_keras(path: Path, head: bytes) -> bool:
    """Whether a file is one of Keras's: HDF5, or a zip archive with a config and weights in it."""
    return head.startswith(SIGNATURE) or {CONFIG, WEIGHTS} <= set(member_names(path, head))


def read(path: Path, settings: Settings) -> Bundle:
    """Read any Keras file.

    Raises:
        FormatError: naming the file, and the layer and array that are not as they should be.
    """
    try:
        file, root = open_file(path)
        found = contents(file, settings, Memory(root))
    except FormatError as error:
        if str(path) in str(error):
            raise
        raise FormatError(f"{path}: {error}") from error
    is_model = file.config is not None
    if not found.layers and found.notices and not is_model:
        raise FormatError(f"{path}: no recurrent layer that rnnbridge converts: " + "; ".join(found.notices))
    left = ("the state of the optimizer is left out",) if _OPTIMIZER in root.groups else ()
    notices = (*found.notices, *left)
    return Bundle(found.layers, other_arrays(found.carried), "keras", path, notices, is_model, found.carried)


def is_checkpoint(path: Path, head: bytes) -> bool:
    """Whether a file is the index of a checkpoint of objects, or a SavedModel that has one."""
    index = path.parent / "variables" / "variables.index" if path.suffix == ".pb" else path
    return index.is_file() and is_index(index) and names_objects(index)


def read_checkpoint(path: Path, settings: Settings) -> Bundle:
    """Read the layers of Keras in a checkpoint of objects, or in a SavedModel."""
    try:
        objects = read_objects(path)
        file = ClassedFile(Version(version_of(objects)), Group(), None, list(objects.found()))
        found = contents(file, settings, Memory(file.root))
    except FormatError as error:
        if str(path) in str(error):
            raise
        raise FormatError(f"{path}: {error}") from error
    used = {key for one in found.carried.found.values() for block in one.blocks for key in block.places.values()}
    return Bundle(found.layers, others(objects, used), "keras-checkpoint", path, found.notices)


FORMATS = (
    Format(
        name="keras",
        framework="keras",
        suffixes=(".weights.h5", ".keras", ".hdf5", ".h5"),
        reads="HDF5 files of Keras 1, 2, tf.keras, tf_keras and 3, whole models or weights; .weights.h5; .keras",
        writes="whole models for Keras 3: .keras, .h5, .hdf5; weights for model.load_weights: .weights.h5 for Keras 3, "
        ".h5 and .hdf5 for Keras 2 and tf_keras too",
        sniff=is_keras,
        read=read,
        write=write,
        rows=(*LAYER_ROWS[2], *LAYER_ROWS[3]),
        judges=JUDGES,
    ),
    Format(
        name="keras-2",
        framework="keras",
        suffixes=(),
        reads="as keras",
        writes="an .h5 file for Keras 2.3.1 and tf_keras: a whole model for load_model where the source is one",
        sniff=lambda path, head: False,
        read=read,
        write=write_old,
        rows=LAYER_ROWS[2],
        judges=JUDGES,
    ),
    Format(
        name="keras-cudnn",
        framework="keras",
        suffixes=(),
        reads="as keras",
        writes="as keras-2, with CuDNNLSTM and CuDNNGRU, Keras 2's layers for GPUs",
        sniff=lambda path, head: False,
        read=read,
        write=partial(write_old, cudnn=True),
        rows=CUDNN_ROWS,
        judges=JUDGES,
    ),
    Format(
        name="keras-checkpoint",
        framework="keras",
        suffixes=(".index",),
        reads="Keras layers in TensorFlow 2's checkpoints of objects, and in SavedModels",
        writes="",
        sniff=is_checkpoint,
        read=read_checkpoint,
    ),
)
