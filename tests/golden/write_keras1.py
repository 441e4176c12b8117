"""Golden files written by the real Keras 1.2.2 on Theano 0.9.0 (Python 3.6, no C compiler needed).

Keras 1 has 12 arrays for an LSTM and 9 for a GRU, or 3 with consume_less="gpu". Its layers return no states and take no
initial ones here, so only the sequences are recorded.
"""

import os

os.environ["KERAS_BACKEND"] = "theano"
os.environ["THEANO_FLAGS"] = "cxx=,floatX=float32"

import keras
import numpy as np
import theano
from keras.layers import GRU, LSTM, Bidirectional, Dense, Embedding, Input, Masking, SimpleRNN
from keras.models import Model, Sequential, load_model
from recording import Folder, draw, recurrent_layers, rng_for, same_weights

OWN = "Keras 1.2.2 itself: a copy of the layer as load_model gives it, with return_sequences on"
FOLDER = Folder(
    "keras-1.2.2",
    "write_keras1.py",
    "python3.6 tests/golden/write_keras1.py",
    {"keras": keras.__version__, "theano": theano.__version__},
    "Whole models carry keras_version at the root, but not in model_weights; weights-only files carry none.",
)


def mixed():
    x = Input((5, 3), name="x")
    layers = [
        LSTM(7, name="lstm"),
        LSTM(5, consume_less="gpu", return_sequences=True, name="lstm_gpu"),
        LSTM(2, inner_activation="sigmoid", go_backwards=True, return_sequences=True, name="lstm_backwards"),
        GRU(7, return_sequences=True, name="gru"),
        GRU(5, consume_less="gpu", inner_activation="sigmoid", name="gru_gpu"),
        SimpleRNN(2, activation="relu", name="rnn"),
        Bidirectional(GRU(2, return_sequences=True), merge_mode="sum", name="both_ways"),
    ]
    return Model(input=x, output=[layer(x) for layer in layers])


def stack():
    return Sequential(
        [
            Embedding(13, 5, input_length=5, name="embedding"),
            Bidirectional(LSTM(3, return_sequences=True), name="first"),
            GRU(7, name="second"),
            Dense(2, name="out"),
        ]
    )


def write(build, what, suffixes):
    stem = build.__name__
    model = build()
    rng = rng_for("keras 1 " + stem)
    for layer in model.layers:
        layer.set_weights([draw(_kind(w.name), w.get_value().shape, rng) for w in layer.weights])
    for suffix in suffixes:
        (model.save_weights if "weights" in suffix else model.save)(FOLDER.file(stem + suffix))
    reopened = load_model(FOLDER.file(stem + ".h5"))
    for suffix in suffixes:
        other = build()
        other.load_weights(FOLDER.file(stem + suffix))
        same_weights(reopened, other)
    rng = rng_for("keras 1 " + stem + " x")
    expected = {}
    for path, layer in recurrent_layers(reopened):
        expected.update((path + "|" + key, value) for key, value in record(layer, rng).items())
    FOLDER.expect(stem, expected)
    FOLDER.say([stem + suffix for suffix in suffixes], what, OWN)


def _kind(name):
    """'lstm_U_i' is a recurrent kernel, 'lstm_b_i' a bias."""
    parts = name.split("_")
    return "recurrent" if "U" in parts else "bias" if "b" in parts else "kernel"


def record(layer, rng, batch=3, steps=5):
    config = layer.get_config()
    inner = config["layer"]["config"] if "layer" in config else config
    inner["return_sequences"] = True
    input_size = layer.get_weights()[0].shape[0]
    x = rng.standard_normal((batch, steps, input_size)).astype("float32")
    lengths = rng.permutation([0, steps, steps - 2]).astype("int64")
    valid = np.arange(steps)[None, :, None] < lengths[:, None, None]
    twin = layer.__class__.from_config(config)
    x_in = Input((steps, input_size))
    plain = Model(input=x_in, output=twin(x_in))
    twin.set_weights(layer.get_weights())
    masked = Model(input=x_in, output=twin(Masking(0.0)(x_in)))
    past_end = np.where(valid, x, np.float32(0))
    return {"x": x, "y": plain.predict(x), "lengths": lengths, "y_masked": masked.predict(past_end)}


def main():
    kinds = "LSTM and GRU as 12 and 9 arrays and, with consume_less='gpu', as 3; SimpleRNN; Bidirectional"
    write(mixed, kinds, [".h5", ".weights.h5"])
    write(stack, "a Sequential model, whose config is a list in Keras 1", [".h5"])
    FOLDER.close()


if __name__ == "__main__":
    main()
