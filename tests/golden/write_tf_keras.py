"""Golden files written by tf_keras 2.21 (Keras 2 on TensorFlow 2), in its four file layouts."""

import tensorflow as tf
import tf_keras as keras
import topologies
from recording import Folder, draw_weights, record_model, rng_for, same_weights

OWN = "tf_keras itself: a copy of the layer as the finished file gives it, with return_sequences and return_state on"
FOLDER = Folder(
    "tf_keras-2.21.0",
    "write_tf_keras.py",
    "python3.11 tests/golden/write_tf_keras.py",
    {"tf_keras": keras.__version__, "tensorflow": tf.__version__},
    "Written on a CPU. A .weights_only.h5 is the legacy weights-only layout, a .weights.h5 the layout of Keras 3.",
)


def write(build, what, suffixes, cases=("masked", "state")):
    stem = build.__name__
    keras.backend.clear_session()
    model = build(keras)
    draw_weights(model, rng_for(stem))
    paths = [FOLDER.file(stem + suffix) for suffix in suffixes]
    for path in paths:
        (model.save_weights if "weights" in path.rsplit("/", 1)[1] else model.save)(path)
    FOLDER.expect(stem, record_model(keras, reopen(build, paths), rng_for(stem + " x"), cases))
    FOLDER.say([stem + suffix for suffix in suffixes], what, OWN)


def reopen(build, paths):
    """The model as the first of `paths` gives it, after all of them were found to give the same numbers."""
    models = [_open(build, path) for path in paths]
    for other in models[1:]:
        same_weights(models[0], other)
    return models[0]


def _open(build, path):
    if "weights" not in path.rsplit("/", 1)[1]:
        return keras.models.load_model(path, safe_mode=False)
    model = build(keras)
    model.load_weights(path)
    return model


def main():
    every = [".h5", ".keras", ".weights.h5", ".weights_only.h5"]
    write(topologies.mixed, "LSTM, GRU and SimpleRNN with the defaults of TensorFlow 2 and without", every)
    write(topologies.two_ways, "Bidirectional, merged and apart", [".weights.h5"])
    write(topologies.nested, "recurrent layers inside nested models and TimeDistributed", [".keras"], cases=())
    write(topologies.time_major, "layers with time_major=True; their values are batch first", [".h5"], cases=())
    FOLDER.close()


if __name__ == "__main__":
    main()
