"""Golden files written by tf.keras of TensorFlow 1.15.5 (Python 3.7), whose recurrent layers default to hard_sigmoid.

cuDNN layers are saved in a pruned session and judged by LSTM and GRU(reset_after=True), as in write_keras2.py.
"""

import tensorflow as tf
import topologies
from recording import Folder, draw_weights, record_model, rng_for, same_weights

keras = tf.keras
OWN = "tf.keras 1.15.5 itself: a copy of the layer as load_model gives it, with return_sequences and return_state on"
FROM_CUDNN = (
    "tf.keras 1.15.5 loads this file with load_weights into the same topology of LSTM(recurrent_activation='sigmoid') "
    "and GRU(reset_after=True), converting the cuDNN arrays itself, and that model answers; the cuDNN layers never ran"
)
FOLDER = Folder(
    "tf.keras-1.15.5",
    "write_tf_keras1.py",
    "python3.7 tests/golden/write_tf_keras1.py",
    {"tensorflow": tf.__version__, "keras": keras.__version__},
    "Written on a CPU in graph mode by tensorflow.keras.layers.",
)


def fresh_session():
    keras.backend.clear_session()
    options = tf.GraphOptions(place_pruned_graph=True)
    config = tf.ConfigProto(graph_options=options, allow_soft_placement=True)
    keras.backend.set_session(tf.Session(config=config))


def cpu_lstm(units, **kwargs):
    return keras.layers.LSTM(units, recurrent_activation="sigmoid", **kwargs)


def cpu_gru(units, **kwargs):
    return keras.layers.GRU(units, recurrent_activation="sigmoid", reset_after=True, **kwargs)


def write_plain(build, what):
    stem = build.__name__
    fresh_session()
    model = build(keras)
    draw_weights(model, rng_for(stem))
    model.save(FOLDER.file(stem + ".h5"))
    reopened = keras.models.load_model(FOLDER.file(stem + ".h5"))
    FOLDER.expect(stem, record_model(keras, reopened, rng_for(stem + " x")))
    FOLDER.say([stem + ".h5"], what, OWN)


def write_cudnn(build, what):
    stem = build.__name__
    fresh_session()
    model = build(keras, tf.compat.v1.keras.layers.CuDNNLSTM, tf.compat.v1.keras.layers.CuDNNGRU)
    draw_weights(model, rng_for(stem))
    model.save(FOLDER.file(stem + ".h5"))
    same_weights(model, keras.models.load_model(FOLDER.file(stem + ".h5")))
    fresh_session()
    judge = build(keras, cpu_lstm, cpu_gru)
    judge.load_weights(FOLDER.file(stem + ".h5"))
    FOLDER.expect(stem, record_model(keras, judge, rng_for(stem + " x"), cases=["state"]))
    FOLDER.say([stem + ".h5"], what, FROM_CUDNN)


def main():
    write_plain(topologies.mixed, "LSTM, GRU and SimpleRNN with their defaults of TensorFlow 1 and without")
    write_cudnn(topologies.cudnn, "CuDNNLSTM and CuDNNGRU, go_backwards, return_state")
    FOLDER.close()


if __name__ == "__main__":
    main()
