"""Golden files written by MXNet 1.9.1, and MXNet's own answers: for every layer of a file, and for every row's arrays.

Everything is time first, [T, N, .], and float32. `rows.npz` is what judges the rows: `<row>|array|<name>` are the
arrays that a row names, `<row>|x`, `<row>|state<k>` what went in, `<row>|y`, `<row>|final<k>` what MXNet made of it.
"""

import mxnet as mx
import numpy as np
from mxnet import gluon
from recording import Folder, draw, rng_for

I, H, P, T, N = 5, 3, 2, 7, 3
OWN = "MXNet 1.9.1 on a CPU: the block itself, or for a symbol mx.nd.RNN, runs a drawn input from drawn states"
FOLDER = Folder(
    "mxnet-1.9.1",
    "write_mxnet.py",
    "python3.11 tests/golden/write_mxnet.py",
    {"mxnet": mx.__version__},
    "Written on a CPU, where MXNet ignores sequence lengths: there are no answers with lengths.",
)
ND = mx.nd.array


def fill(block, rng):
    """Drawn values for every parameter; recurrent ones are small."""
    block.initialize()
    for name, parameter in block.collect_params().items():
        kind = "recurrent" if "h2h" in name else name
        parameter.set_data(ND(draw(kind, parameter.shape, rng)))


def numbers(arrays):
    return [array.asnumpy().astype("float32") for array in arrays]


def run(block, rng):
    """x, states, y, final states of a layer or cell."""
    x = rng.standard_normal((T, N, I)).astype("float32")
    cell = isinstance(block, gluon.rnn.RecurrentCell)
    infos = block.state_info(N)
    states = [rng.uniform(-0.9, 0.9, info["shape"]).astype("float32") for info in infos]
    if cell:
        y, final = block.unroll(T, ND(x), begin_state=[ND(s) for s in states], layout="TNC", merge_outputs=True)
        states, final = [s[None] for s in states], [f.expand_dims(0) for f in final]
    else:
        y, final = block(ND(x), [ND(s) for s in states])
    return x, states, y.asnumpy(), numbers(final)


def run_vector(mode, vector, layers, rng):
    """The same for a packed vector of a bidirectional stack, through the operator."""
    x = rng.standard_normal((T, N, I)).astype("float32")
    kinds = 2 if mode == "lstm" else 1
    states = [rng.uniform(-0.9, 0.9, (2 * layers, N, H)).astype("float32") for _ in range(kinds)]
    given = dict(zip(("state", "state_cell"), [ND(s) for s in states]))
    y, *final = mx.nd.RNN(
        ND(x),
        vector,
        mode=mode,
        state_size=H,
        num_layers=layers,
        bidirectional=True,
        state_outputs=True,
        p=0.0,
        **given,
    )
    return x, states, y.asnumpy(), numbers(final)


def keyed(name, answer):
    x, states, y, final = answer
    arrays = {name + "|x": x, name + "|y": y}
    arrays.update((name + "|state%d" % k, s) for k, s in enumerate(states))
    arrays.update((name + "|final%d" % k, s) for k, s in enumerate(final))
    return arrays


class Model(gluon.Block):
    """One block of every kind, under names of attributes."""

    def __init__(self):
        super().__init__()
        self.both_ways = gluon.rnn.LSTM(H, 2, bidirectional=True, input_size=I)
        self.projected = gluon.rnn.LSTM(H, 2, projection_size=P, input_size=I)
        self.gru = gluon.rnn.GRU(H, 3, input_size=I)
        self.relu = gluon.rnn.RNN(H, input_size=I)
        self.rnn_tanh = gluon.rnn.RNN(H, 2, activation="tanh", bidirectional=True, input_size=I)
        self.lstm_cell = gluon.rnn.LSTMCell(H, input_size=I)
        self.gru_cell = gluon.rnn.GRUCell(H, input_size=I)
        self.rnn_cell = gluon.rnn.RNNCell(H, input_size=I)
        self.lstmp_cell = gluon.contrib.rnn.LSTMPCell(H, P, input_size=I)
        self.dense = gluon.nn.Dense(2, in_units=7)


def model_files():
    model, rng = Model(), rng_for("mxnet model")
    fill(model, rng)
    expected = {}
    for name, block in model._children.items():
        if name != "dense":
            expected.update(keyed(name, run(block, rng)))
    model.save_parameters(FOLDER.file("model.params"))
    FOLDER.expect("model", expected)
    FOLDER.say(["model.params"], "one of every gluon layer and cell, by Block.save_parameters", OWN)


def prefixed_files():
    layer, rng = gluon.rnn.LSTM(H, 2, bidirectional=True, input_size=I, prefix="lstm7_"), rng_for("mxnet prefixed")
    fill(layer, rng)
    layer.collect_params().save(FOLDER.file("prefixed.params"))
    held = mx.nd.load(FOLDER.file("prefixed.params"))
    mx.nd.save(FOLDER.file("prefixed.exported.params"), {"arg:" + name: value for name, value in held.items()})
    with mx.util.np_shape(True):
        mx.nd.save(FOLDER.file("prefixed.np_shape.params"), held)
    FOLDER.expect("prefixed", keyed("lstm7", run(layer, rng)))
    how = ["collect_params().save", "the same as export and save_checkpoint name it", "the same with NumPy shapes"]
    for name, what in zip(["prefixed.params", "prefixed.exported.params", "prefixed.np_shape.params"], how):
        FOLDER.say([name], "a bidirectional LSTM of 2 layers, " + what, OWN)


def symbol_files():
    for mode, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1)):
        rng = rng_for("mxnet symbol " + mode)
        cell = mx.rnn.FusedRNNCell(H, num_layers=2, mode=mode, bidirectional=True, prefix=mode + "_")
        vector = ND(draw("recurrent", (2 * gates * H * ((I + H + 2) + (2 * H + H + 2)),), rng))
        packed = {mode + "_parameters": vector}
        mx.nd.save(FOLDER.file(mode + ".packed.params"), packed)
        mx.nd.save(FOLDER.file(mode + ".unpacked.params"), cell.unpack_weights(dict(packed)))
        FOLDER.expect(mode, keyed(mode, run_vector(mode, vector, 2, rng)))
        FOLDER.say([mode + ".packed.params"], "the vector of a FusedRNNCell, 2 layers, bidirectional", OWN)
        FOLDER.say([mode + ".unpacked.params"], "the same by FusedRNNCell.unpack_weights, gate by gate", OWN)


def rows_file():
    """Every row's layer: 2 layers in both directions where the row can, a projection where it has one."""
    layers = {
        "LSTM": gluon.rnn.LSTM(H, 2, bidirectional=True, projection_size=P, input_size=I, prefix=""),
        "GRU": gluon.rnn.GRU(H, 2, bidirectional=True, input_size=I, prefix=""),
        "RNN": gluon.rnn.RNN(H, 2, activation="tanh", bidirectional=True, input_size=I, prefix=""),
        "LSTMCell": gluon.rnn.LSTMCell(H, input_size=I, prefix=""),
        "GRUCell": gluon.rnn.GRUCell(H, input_size=I, prefix=""),
        "RNNCell": gluon.rnn.RNNCell(H, input_size=I, prefix=""),
        "LSTMPCell": gluon.contrib.rnn.LSTMPCell(H, P, input_size=I, prefix=""),
    }
    found = {}
    for name, block in layers.items():
        rng = rng_for("mxnet row " + name)
        fill(block, rng)
        found.update(keyed(name, run(block, rng)))
        found.update((name + "|array|" + key, p.data().asnumpy()) for key, p in block.collect_params().items())
    for mode, gates in (("lstm", 4), ("gru", 3)):
        rng, row = rng_for("mxnet row unpacked " + mode), mode.upper() + " unpacked"
        cell = mx.rnn.FusedRNNCell(H, num_layers=2, mode=mode, bidirectional=True, prefix="")
        vector = ND(draw("recurrent", (2 * gates * H * ((I + H + 2) + (2 * H + H + 2)),), rng))
        unpacked = cell.unpack_weights({"parameters": vector})
        assert np.array_equal(cell.pack_weights(dict(unpacked))["parameters"].asnumpy(), vector.asnumpy())
        found.update(keyed(row, run_vector(mode, vector, 2, rng)))
        found.update((row + "|array|" + key, value.asnumpy()) for key, value in unpacked.items())
    np.savez_compressed(FOLDER.file("rows.npz"), **found)
    FOLDER.say(["rows.npz"], "arrays in the layout of every row, and what MXNet makes of them", OWN)


if __name__ == "__main__":
    model_files()
    prefixed_files()
    symbol_files()
    rows_file()
    FOLDER.close()
