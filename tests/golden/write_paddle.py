"""Golden files written by PaddlePaddle 3.3.1, and its own answers for every layer of a file and every row's arrays.

Everything is time first, [T, N, .], and float32. `rows.npz` is what judges the rows: `<row>|<case>|array|<name>` are
the arrays that a row names, `x`, `state<k>` what went in, `y`, `final<k>` what Paddle made of it. A case is empty, or
the lengths: then the layer has one direction and no projection.
"""

import os

import numpy as np
import paddle
from paddle import nn, static
from paddle.pir_utils import OldIrGuard
from paddle_operators import H, I, N, T, operator_answers, operator_arrays, parts
from recording import Folder, draw, rng_for

P = 2
LENGTHS = ([7, 3, 1], [7, 0, 3])
OWN = "PaddlePaddle 3.3.1 on a CPU: the layer itself runs a drawn input from drawn states, without lengths and with"
OPERATOR = "PaddlePaddle 3.3.1 on a CPU: its operator %s of Paddle 1 after mul, on sequences that lie end to end"
FOLDER = Folder(
    "paddle-3.3.1",
    "write_paddle.py",
    "python3.11 tests/golden/write_paddle.py",
    {"paddlepaddle": paddle.__version__},
    "Layers with a projection, and nn.RNN around a cell, do not mask their outputs: there are none with lengths.",
)


def fill(layer, rng):
    """Drawn values for every parameter; recurrent ones are small."""
    for name, parameter in layer.state_dict().items():
        if "_l" not in name.rpartition(".")[2]:
            kind = "recurrent" if "weight_hh" in name else name
            parameter.set_value(draw(kind, tuple(parameter.shape), rng))


def states_of(layer, rng):
    """Drawn states: h, and c for an LSTM."""
    cell = not isinstance(layer, (nn.LSTM, nn.GRU, nn.SimpleRNN))
    first = () if cell else (layer.num_layers * layer.num_directions,)
    width = getattr(layer, "proj_size", 0) or layer.hidden_size
    widths = (width, layer.hidden_size) if type(layer).__name__.startswith("LSTM") else (width,)
    return [rng.uniform(-0.9, 0.9, (*first, N, each)).astype("float32") for each in widths]


def run(layer, x, states, lengths=None):
    """y and the final states of a layer or cell; a cell's have no axis for layers."""
    given = [paddle.to_tensor(state) for state in states]
    given = tuple(given) if len(given) > 1 else given[0]
    if not isinstance(layer, (nn.LSTM, nn.GRU, nn.SimpleRNN)):
        layer = nn.RNN(layer, time_major=True)
    order = (lambda array: array) if layer.time_major else (lambda array: array.transpose(1, 0, 2))
    lengths = None if lengths is None else paddle.to_tensor(lengths)
    y, final = layer(paddle.to_tensor(order(x)), given, lengths)
    finals = final if len(states) > 1 else [final]
    return order(y.numpy()), [state.numpy() for state in finals]


def answers(layer, rng, size=I, lengths=None):
    """What went in and came out, for one layer; with lengths too where they are given."""
    x = rng.standard_normal((T, N, size)).astype("float32")
    states = states_of(layer, rng)
    y, finals = run(layer, x, states)
    deep = (lambda array: array) if finals[0].ndim == 3 else (lambda array: array[None])
    found = {"x": x, "y": y}
    found.update(("state%d" % k, deep(state)) for k, state in enumerate(states))
    found.update(("final%d" % k, deep(state)) for k, state in enumerate(finals))
    if lengths is not None:
        y, finals = run(layer, x, states, lengths)
        found.update(lengths=np.array(lengths), y_masked=y)
        found.update(("final%d_masked" % k, deep(state)) for k, state in enumerate(finals))
    return found


def keyed(name, found):
    return {name + "|" + key: array for key, array in found.items()}


class Model(nn.Layer):
    """One layer of every kind, under names of attributes."""

    def __init__(self):
        super().__init__()
        self.both_ways = nn.LSTM(I, H, num_layers=2, direction="bidirect")
        self.projected = nn.LSTM(I, H, num_layers=2, direction="bidirect", proj_size=P)
        self.gru = nn.GRU(I, H, num_layers=3, time_major=True)
        self.simple = nn.SimpleRNN(I, H, num_layers=2, direction="bidirect")
        self.relu = nn.SimpleRNN(I, H, activation="relu")
        self.lstm_cell = nn.LSTMCell(I, H)
        self.gru_cell = nn.GRUCell(I, H)
        self.rnn_cell = nn.SimpleRNNCell(I, H)
        self.lstmp_cell = nn.LSTMCell(I, H, proj_size=P)
        self.dense = nn.Linear(7, 2)


def model_files():
    model, rng = Model(), rng_for("paddle model")
    fill(model, rng)
    expected = {}
    for name, layer in model.named_children():
        if name != "dense":
            plain = not name.endswith("cell") and name != "projected"
            expected.update(keyed(name, answers(layer, rng, lengths=[3, 7, 0] if plain else None)))
    paddle.save(model.state_dict(), FOLDER.file("model.pdparams"))
    paddle.save(model.state_dict(), FOLDER.file("model.protocol2.pdparams"), protocol=2)
    tensors = {name: paddle.to_tensor(value.numpy()) for name, value in model.state_dict().items()}
    paddle.save({"network": tensors, "epoch": 3}, FOLDER.file("model.nested.pdparams"))
    FOLDER.expect("model", expected)
    FOLDER.say(["model.pdparams"], "one of every layer and cell of nn, by paddle.save(model.state_dict())", OWN)
    FOLDER.say(["model.protocol2.pdparams"], "the same with protocol=2", OWN)
    FOLDER.say(["model.nested.pdparams"], "the same tensors in a dict in a dict, as checkpoints have them", OWN)


class Inferred(nn.Layer):
    """What is exported: layers with an operator of their own, one that has a projection, a cell."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(I, H, num_layers=2, direction="bidirect")
        self.lstm = nn.LSTM(2 * H, H, time_major=True)
        self.relu = nn.SimpleRNN(H, I, activation="relu")
        self.projected = nn.LSTM(I, H, proj_size=P)
        self.dense = nn.Linear(P, 2)

    def forward(self, x):
        y, _ = self.gru(x)
        y, _ = self.lstm(y.transpose([1, 0, 2]))
        y, _ = self.relu(y.transpose([1, 0, 2]))
        y, _ = self.projected(y)
        return self.dense(y)


def inference_files():
    with paddle.utils.unique_name.guard():
        model, rng = Inferred(), rng_for("paddle inference")
    fill(model, rng)
    model.eval()
    expected = {}
    names = {"gru": "gru_0", "lstm": "lstm_0", "relu": "simple_rnn_0", "projected": "lstm_cell_1"}
    for attribute, name in names.items():
        layer = getattr(model, attribute)
        cell = layer if attribute != "projected" else layer[0].cell
        size = next(iter(layer.state_dict().values())).shape[1]
        expected.update(keyed(name, answers(cell, rng, size, [3, 7, 0] if cell is layer else None)))
    shape = static.InputSpec([None, T, I], "float32")
    paddle.jit.save(model, FOLDER.file("inference"), input_spec=[shape])
    FOLDER.expect("inference", expected)
    FOLDER.say(["inference.pdiparams", "inference.json"], "layers and a dense layer, by paddle.jit.save", OWN)
    layers = {"gru": model.gru, "lstm": model.lstm, "relu": model.relu}
    values = [[parameter.numpy() for parameter in layer.parameters()] for layer in layers.values()]
    paddle.enable_static()
    older_program(values)
    paddle.disable_static()
    FOLDER.expect("older", {key: array for key, array in expected.items() if not key.startswith("lstm_cell")})
    what = "three of these layers with the same weights, by static.save_inference_model as Paddle 2 writes it"
    FOLDER.say(["older.pdiparams", "older.pdmodel"], what, OWN)


def older_program(values):
    """The recurrent layers of Inferred in a program of Paddle 2, whose parameters get these values."""
    with OldIrGuard(), paddle.utils.unique_name.guard():
        main, start = static.Program(), static.Program()
        with static.program_guard(main, start):
            x = static.data("x", [None, T, I], "float32")
            gru, relu = nn.GRU(I, H, num_layers=2, direction="bidirect"), nn.SimpleRNN(H, I, activation="relu")
            lstm = nn.LSTM(2 * H, H, time_major=True)
            y, _ = lstm(paddle.transpose(gru(x)[0], [1, 0, 2]))
            y, _ = relu(paddle.transpose(y, [1, 0, 2]))
        executor = static.Executor(paddle.CPUPlace())
        executor.run(start)
        for layer, arrays in zip((gru, lstm, relu), values):
            for parameter, array in zip(layer.parameters(), arrays):
                static.global_scope().find_var(parameter.name).get_tensor().set(array, paddle.CPUPlace())
        static.save_inference_model(FOLDER.file("older"), [x], [y], executor, program=main)
        with open(FOLDER.file("older.pdmodel"), "rb") as file:
            program = static.Program.parse_from_string(file.read())
        for one in program.global_block().ops:
            one.desc.remove_attr("op_callstack")  # where this script lies
        with open(FOLDER.file("older.pdmodel"), "wb") as file:
            file.write(program.desc.serialize_to_string())


FLUID = {
    "gru_0": ("gru", True, False, {}),
    "gru_1": ("gru", False, False, {"is_reverse": True}),
    "gru_2": ("gru", True, False, {"origin_mode": True}),
    "lstm_0": ("lstm", True, True, {"use_peepholes": True}),
    "lstm_1": ("lstm", False, False, {"use_peepholes": False, "is_reverse": True}),
    "gru_unit_0": ("gru_unit", True, False, {"activation": 2, "gate_activation": 1}),  # tanh and sigmoid, by number
}


def fluid_files():
    expected, names = {}, []
    if not os.path.isdir(FOLDER.file("fluid")):
        os.makedirs(FOLDER.file("fluid"))
    for number, (name, (kind, fc_bias, peepholes, attributes)) in enumerate(FLUID.items()):
        rng = rng_for("paddle fluid " + name)
        arrays = operator_arrays(kind, rng, fc_bias, peepholes)
        for own, array in arrays.items():
            file = own.replace("fc", "fc_%d" % number) if own.startswith("fc") else "%s.%s" % (name, own)
            paddle.save(paddle.to_tensor(array), FOLDER.file("fluid/" + file), use_binary_format=True)
            names.append("fluid/" + file)
        lengths = None if kind == "gru_unit" else [3, 7, 2]
        expected.update(keyed(name, operator_answers(kind, arrays, rng, lengths, **attributes)))
    FOLDER.expect("fluid", expected)
    what = "one tensor, by paddle.save with use_binary_format; attributes: %s" % {
        name: attributes for name, (_, _, _, attributes) in FLUID.items()
    }
    FOLDER.say(names, what, OPERATOR % "gru, gru_unit or lstm")
    for name in names:
        FOLDER.files[name]["expected"] = "fluid.expected.npz"


def rows_file():
    """Every row's layer: 2 layers in both directions where the row can, a projection where it has one."""
    most = {"num_layers": 2, "direction": "bidirect", "time_major": True}
    layers = {
        "LSTM": (lambda: nn.LSTM(I, H, proj_size=P, **most), lambda: nn.LSTM(I, H, time_major=True)),
        "GRU": (lambda: nn.GRU(I, H, **most), lambda: nn.GRU(I, H, time_major=True)),
        "SimpleRNN": (lambda: nn.SimpleRNN(I, H, **most), lambda: nn.SimpleRNN(I, H, time_major=True)),
        "LSTMCell": (lambda: nn.LSTMCell(I, H, proj_size=P), None),
        "GRUCell": (lambda: nn.GRUCell(I, H), None),
        "SimpleRNNCell": (lambda: nn.SimpleRNNCell(I, H), None),
    }
    found = {}
    for name, (full, plain) in layers.items():
        rng = rng_for("paddle row " + name)
        cases = {"": full, **({",".join(map(str, lengths)): plain for lengths in LENGTHS} if plain else {})}
        for case, make in cases.items():
            layer = make()
            fill(layer, rng)
            found.update(keyed("%s|%s" % (name, case), row_answers(layer, rng, case)))
            own = {key: value.numpy() for key, value in layer.state_dict().items() if "_l" not in key}
            found.update(keyed("%s|%s|array" % (name, case), own))
    for name, (kind, fc_bias, peepholes, attributes) in {
        "dynamic_lstm": ("lstm", False, True, {"use_peepholes": True}),
        "dynamic_lstm after a biased fc": ("lstm", True, True, {"use_peepholes": True}),
        "dynamic_gru": ("gru", False, False, {}),
        "dynamic_gru after a biased fc": ("gru", True, False, {}),
        "dynamic_gru origin_mode": ("gru", False, False, {"origin_mode": True}),
        "dynamic_gru origin_mode after a biased fc": ("gru", True, False, {"origin_mode": True}),
    }.items():
        rng = rng_for("paddle row " + name)
        arrays = operator_arrays(kind, rng, fc_bias, peepholes)
        found.update(keyed(name + "|", operator_answers(kind, arrays, rng, **attributes)))
        found.update(keyed(name + "||array", parts(kind, arrays)))
    np.savez_compressed(FOLDER.file("rows.npz"), **found)
    FOLDER.say(["rows.npz"], "arrays in the layout of every row, and what Paddle makes of them", OWN)


def row_answers(layer, rng, case):
    """With lengths in place of those without, where a case has some."""
    if not case:
        return answers(layer, rng)
    found = answers(layer, rng, lengths=[int(length) for length in case.split(",")])
    plain = {key: array for key, array in found.items() if not key.endswith("_masked") and key != "lengths"}
    return {key: found.get(key + "_masked", array) for key, array in plain.items()}


if __name__ == "__main__":
    model_files()
    inference_files()
    fluid_files()
    rows_file()
    FOLDER.close()
