"""Golden files written by Keras 2.3.1 on TensorFlow 1.15.5 (Python 3.7), and the demo model of examples/.

CuDNN layers can be built and saved without a GPU in a session whose graph is pruned before placement, but never
run. Their expected values come from Keras itself: the same topology with LSTM(recurrent_activation="sigmoid") and
GRU(reset_after=True) loads the finished file with `load_weights`, which converts the cuDNN arrays, and that model
answers.
"""

import json

import h5py
import keras
import tensorflow as tf
import topologies
from gpu_model import write_gpu_model
from keras import backend
from recording import Folder, draw_weights, record_model, rng_for, same_weights

OWN = "Keras 2.3.1 itself: a copy of the layer as load_model gives it, with return_sequences and return_state on"
FROM_CUDNN = (
    "Keras 2.3.1 loads this file with load_weights into the same topology of LSTM(recurrent_activation='sigmoid') and "
    "GRU(reset_after=True), converting the cuDNN arrays itself, and that model answers; the cuDNN layers never ran"
)
AS_IN_2_2_4 = (
    "Keras 2.3.1 loads this file with load_weights into the topology that Keras 2.2.4 reads in it, spelt out: "
    "hard_sigmoid in LSTM and GRU, GRU(reset_after=False); cuDNN layers become LSTM and GRU(reset_after=True) with "
    "sigmoid. The real Keras 2.2.4 was run once on this file, by hand: load_model opens it with these defaults, and "
    "its outputs for the layers that are not cuDNN have the same bits"
)
COMMAND = "python3.7 tests/golden/write_keras2.py"
FOLDER = Folder(
    "keras-2.3.1",
    "write_keras2.py",
    COMMAND,
    {"keras": keras.__version__, "tensorflow": tf.__version__},
    "Written on a CPU. A .weights.h5 here is the legacy weights-only layout, which Keras 2 writes under any name.",
)


def fresh_session():
    """One thread: training gives the same bits every time. Pruned before placement: cuDNN layers can be saved."""
    backend.clear_session()
    config = tf.ConfigProto(
        graph_options=tf.GraphOptions(place_pruned_graph=True),
        allow_soft_placement=True,
        intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=1,
    )
    backend.set_session(tf.Session(config=config))


def cpu_lstm(units, **kwargs):
    return keras.layers.LSTM(units, recurrent_activation="sigmoid", **kwargs)


def cpu_gru(units, **kwargs):
    return keras.layers.GRU(units, recurrent_activation="sigmoid", reset_after=True, **kwargs)


def save(model, stem, suffixes):
    for suffix in suffixes:
        (model.save_weights if "weights" in suffix else model.save)(FOLDER.file(stem + suffix))
    return [stem + suffix for suffix in suffixes]


def loaded(model, name):
    model.load_weights(FOLDER.file(name))
    return model


def write_plain(build, what, suffixes=(".h5",), cases=("masked", "state"), prepare=lambda model: None):
    """Write the model of `build` and the answers of what load_model makes of its .h5."""
    stem = build.__name__
    fresh_session()
    model = build(keras)
    draw_weights(model, rng_for(stem))
    prepare(model)
    written = save(model, stem, suffixes)
    reopened = keras.models.load_model(FOLDER.file(stem + ".h5"))
    for name in written:
        same_weights(reopened, loaded(build(keras), name))
    expected = record_model(keras, reopened, rng_for(stem + " x"), cases)
    if expected:
        FOLDER.expect(stem, expected)
    FOLDER.say(written, what, OWN if expected else None)


def write_cudnn(build, what, suffixes=(".h5",), cases=("state",), edit=lambda path: None, how=FROM_CUDNN):
    """Write the model of `build` with cuDNN layers and the answers of its CPU twin, which loads the first file."""
    stem = build.__name__
    fresh_session()
    model = build(keras, keras.layers.CuDNNLSTM, keras.layers.CuDNNGRU)
    draw_weights(model, rng_for(stem))
    written = save(model, stem, suffixes)
    edit(FOLDER.file(written[0]))
    fresh_session()
    judge = loaded(build(keras, cpu_lstm, cpu_gru), written[0])
    for name in written:
        same_weights(judge, loaded(build(keras, cpu_lstm, cpu_gru), name))
        if "weights" not in name:
            gpu = build(keras, keras.layers.CuDNNLSTM, keras.layers.CuDNNGRU)
            same_weights(keras.models.load_model(FOLDER.file(name)), loaded(gpu, name))
    FOLDER.expect(stem, record_model(keras, judge, rng_for(stem + " x"), cases))
    FOLDER.say(written, what, how)


def train_one_step(model):
    """Leaves optimizer_weights and a training_config in the file."""
    rng = rng_for("one step")
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "sparse_categorical_crossentropy")
    model.train_on_batch(rng.randint(0, 13, (3, 7)), rng.randint(0, 5, (3, 1)))


def forget_keys(path):
    """Edit a file so that only Keras 2.2.4's defaults tell what it means: its version, no key that changed later."""
    with h5py.File(path, "r+") as file:
        config = _without_new_keys(json.loads(file.attrs["model_config"].decode("utf8")))
        file.attrs["model_config"] = json.dumps(config).encode("utf8")
        for group in (file, file["model_weights"]):
            group.attrs["keras_version"] = b"2.2.4"


def _without_new_keys(part):
    if isinstance(part, dict):
        return {k: _without_new_keys(v) for k, v in part.items() if k not in ("recurrent_activation", "reset_after")}
    return [_without_new_keys(v) for v in part] if isinstance(part, list) else part


def main():
    fresh_session()
    write_gpu_model(keras, cpu_lstm, cpu_gru, fresh_session, COMMAND)  # first: trained later, its last bits differ
    both, only_weights = (".h5", ".weights.h5"), (".weights.h5",)
    write_plain(topologies.lstm, "LSTM: sigmoid, hard_sigmoid, no bias, unit_forget_bias off, relu, go_backwards")
    write_plain(topologies.gru, "GRU reset before and after: hard_sigmoid, no bias, relu, go_backwards", both)
    write_plain(topologies.simple_rnn, "SimpleRNN: tanh, relu, no bias, go_backwards")
    write_plain(topologies.cells, "RNN around LSTMCell, GRUCell (both formulas), SimpleRNNCell and a list of cells")
    write_plain(topologies.bidirectional, "Bidirectional with every merge mode, around every cell")
    write_plain(topologies.nested, "recurrent layers inside nested models and TimeDistributed", both, cases=())
    write_plain(topologies.stack, "Embedding, layers in a row, an optimizer's state", cases=(), prepare=train_one_step)
    write_plain(topologies.names, "layer names with slashes, dots, and the names of other things", cases=())
    write_plain(topologies.stateful, "stateful layers with batch_input_shape and return_state", cases=())
    write_plain(topologies.no_rnn, "a model without a recurrent layer", cases=())
    write_cudnn(topologies.cudnn, "CuDNNLSTM and CuDNNGRU, go_backwards, return_state", both)
    write_cudnn(topologies.cudnn_bidirectional, "Bidirectional around CuDNNLSTM and CuDNNGRU", only_weights)
    write_cudnn(topologies.cudnn_nested, "cuDNN layers inside a nested and a TimeDistributed model", cases=())
    old = "edited by hand: keras_version 2.2.4, no recurrent_activation, no reset_after (2.2.4 itself writes both)"
    write_cudnn(topologies.old_defaults, old, edit=forget_keys, how=AS_IN_2_2_4)
    FOLDER.close()


if __name__ == "__main__":
    main()
