"""Golden files written by Keras 3.15 on TensorFlow 2.21, in its three file layouts."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf
import topologies
from recording import Folder, draw_weights, record_model, rng_for, same_weights

OWN = "Keras 3 itself: a copy of the layer as the finished file gives it, with return_sequences and return_state on"
WIDENED = "Keras 3 itself: a float32 copy of the layer with the weights widened to float32, which loses nothing"
FOLDER = Folder(
    "keras-3.15.1",
    "write_keras3.py",
    "python3.11 tests/golden/write_keras3.py",
    {"keras": keras.__version__, "tensorflow": tf.__version__},
    "Written on a CPU with the TensorFlow backend. hard_sigmoid has the slope 1/6 here, not 0.2.",
)


def write(build, what, suffixes, cases=("masked", "state"), how=OWN):
    stem = build.__name__
    keras.backend.clear_session()
    model = build(keras)
    draw_weights(model, rng_for(stem))
    paths = [FOLDER.file(stem + suffix) for suffix in suffixes]
    for path in paths:
        (model.save_weights if path.endswith(".weights.h5") else model.save)(path)
    FOLDER.expect(stem, record_model(keras, reopen(build, paths), rng_for(stem + " x"), cases))
    FOLDER.say([stem + suffix for suffix in suffixes], what, how)


def reopen(build, paths):
    """The model as the first of `paths` gives it, after all of them were found to give the same numbers."""
    models = [_open(build, path) for path in paths]
    for other in models[1:]:
        same_weights(models[0], other)
    return models[0]


def _open(build, path):
    if not path.endswith(".weights.h5"):
        return keras.models.load_model(path)
    model = build(keras)
    model.load_weights(path)
    return model


def main():
    mixed = "LSTM, GRU and SimpleRNN with the defaults of Keras 3 and without"
    write(topologies.mixed, mixed, [".h5", ".keras", ".weights.h5"])
    write(topologies.cells, "RNN around cells and a list of cells", [".weights.h5"])
    write(topologies.two_ways, "Bidirectional, merged and apart", [".keras"])
    write(topologies.nested, "recurrent layers inside nested models and TimeDistributed", [".keras"], cases=())
    write(topologies.free_names, "layer names with blanks, punctuation and other alphabets", [".keras"], cases=())
    write(topologies.narrow, "LSTM of float16, GRU of bfloat16", [".keras"], cases=(), how=WIDENED)
    FOLDER.close()


if __name__ == "__main__":
    main()
