"""Golden files written by TensorFlow 1.15.5, and its own answers for every layer of a file and every row's arrays.

Everything is time first, [T, N, .], and float32. Layers are run by dynamic_rnn, bidirectional_dynamic_rnn and
stack_bidirectional_dynamic_rnn, block-fused cells by themselves, from drawn states, without lengths and with each of
`LENGTHS`. States come in TensorFlow's order: c before h. In `rows.npz` a row's arrays lie under `<row>|array|<name>`.
"""

import os
import shutil

import numpy as np
import tensorflow as tf
from recording import Folder, draw, rng_for

contrib, cells = tf.contrib, tf.nn.rnn_cell
I, H, P, T, N = 5, 3, 2, 7, 3
LENGTHS = ([7, 3, 1], [7, 0, 3])
OWN = "TensorFlow 1.15.5 on a CPU runs the cells themselves on a drawn input from drawn states"
FOLDER = Folder(
    "tensorflow-1.15.5",
    "write_tensorflow1.py",
    "python3.7 tests/golden/write_tensorflow1.py",
    {"tensorflow": tf.__version__},
    "CudnnLSTM and CudnnGRU need a GPU, which there was none of: their canonical variables are written by the "
    "CudnnCompatible cells under the same names, and their opaque_kernel is not here.",
)


class Layer:
    """One layer or stack in a graph. `make` gives a new cell; `wrap` is "", "inside" or "fused".

    inside: each direction is a MultiRNNCell of its own. Answers are keyed <name>, or <name>/fw and <name>/bw.
    """

    def __init__(self, name, make, layers=1, both=False, wrap=""):
        self.name, self.make, self.layers, self.both, self.wrap = name, make, layers, both, wrap
        rng = rng_for("tensorflow " + name)
        self.x = rng.standard_normal((T, N, I)).astype("float32")
        self.places = [(k, d) for k in range(layers) for d in range(2 if both else 1)]
        self.states = None
        self.lengths = tf.placeholder(tf.int32, [N])
        self.y, self.finals = self._build(rng)

    def _state(self, cell, rng):
        """A drawn state of one cell: an array, or (c, h)."""
        sizes = cell.state_size if isinstance(cell.state_size, tuple) else (cell.state_size,)
        return [rng.uniform(-0.9, 0.9, (N, size)).astype("float32") for size in sizes]

    def _build(self, rng):
        """(y, finals by place), with the states that went in kept in self.states."""
        if self.wrap == "fused":
            return self._fused(rng)
        made = {place: self.make() for place in self.places}
        if self.states is None:
            self.states = {place: self._state(made[place], rng) for place in self.places}
        given = {
            place: cells.LSTMStateTuple(*map(tf.constant, s)) if len(s) == 2 else tf.constant(s[0])
            for place, s in self.states.items()
        }
        options = {"sequence_length": self.lengths, "scope": self.name}
        x = tf.constant(self.x.transpose(1, 0, 2))
        side = {d: [made[k, d] for k in range(self.layers)] for d in range(2 if self.both else 1)}
        start = {d: [given[k, d] for k in range(self.layers)] for d in side}
        if self.both and self.layers > 1 and self.wrap != "inside":
            y, fw, bw = contrib.rnn.stack_bidirectional_dynamic_rnn(side[0], side[1], x, start[0], start[1], **options)
            return y, {(k, d): (fw, bw)[d][k] for k, d in self.places}
        one = {d: cells.MultiRNNCell(side[d]) if self.layers > 1 else side[d][0] for d in side}
        begin = {d: tuple(start[d]) if self.layers > 1 else start[d][0] for d in side}
        if self.both:
            y, final = tf.nn.bidirectional_dynamic_rnn(one[0], one[1], x, initial_state_fw=begin[0],
                                                       initial_state_bw=begin[1], **options)  # fmt: skip
            y = tf.concat(y, -1)
        else:
            y, final = tf.nn.dynamic_rnn(one[0], x, initial_state=begin[0], **options)
            final = [final]
        return y, {(k, d): final[d][k] if self.layers > 1 else final[d] for k, d in self.places}

    def _fused(self, rng):
        """A fused cell is a layer of one direction; one reverses the time for the other. Here by itself: [T, N, .]."""
        y, finals = tf.constant(self.x), {}
        self.states = self.states or {
            place: [rng.uniform(-0.9, 0.9, (N, H)).astype("float32") for _ in "ch"] for place in self.places
        }
        for k in range(self.layers):
            sides = []
            for d in range(2 if self.both else 1):
                inner = "" if len(self.places) == 1 else "%d%s/" % (k, "fb"[d])
                cell = self.make(name="%s/%slstm_fused_cell" % (self.name, inner))
                cell = contrib.rnn.TimeReversedFusedRNN(cell) if d else cell
                state = cells.LSTMStateTuple(*map(tf.constant, self.states[k, d]))
                out, finals[k, d] = cell(y, state, tf.float32, self.lengths)
                sides.append(out)
            y = tf.concat(sides, -1)
        return tf.transpose(y, [1, 0, 2]), finals

    def answers(self, session):
        """<name>|<what> -> array."""
        found = {}
        for lengths in ([T] * N,) + LENGTHS:
            end = "" if lengths == [T] * N else "|" + "".join(map(str, lengths))
            y, finals = session.run((self.y, self.finals), {self.lengths: lengths})
            y = y.transpose(1, 0, 2)
            for name, place_of, width in self._parts(y):
                keep = [place for place in self.places if place_of is None or place[1] == place_of]
                kinds = len(self.states[keep[0]])
                found[name + "|x"], found[name + "|y" + end] = self.x, y[..., width]
                for one in range(kinds):
                    found["%s|state%d" % (name, one)] = np.stack([self.states[place][one] for place in keep])
                    held = [finals[place] if kinds == 1 else finals[place][one] for place in keep]
                    found["%s|final%d%s" % (name, one, end)] = np.stack(held)
        return found

    def _parts(self, y):
        if self.wrap != "inside":
            return [(self.name, None, slice(None))]
        half = y.shape[-1] // 2
        return [(self.name + "/fw", 0, slice(0, half)), (self.name + "/bw", 1, slice(half, None))]


def fill(session, stem):
    """Drawn values for every variable, in the order of their names."""
    rng = rng_for("tensorflow file " + stem)
    for variable in sorted(tf.global_variables(), key=lambda one: one.op.name):
        name = variable.op.name
        kind = "bias" if name.split("/")[-1].startswith("b") else "recurrent" if "diag" in name else name
        value = draw(kind, variable.shape.as_list(), rng)
        # with few bits, a bias plus a forget bias is exact, so that it can be told from one that is not
        variable.load(np.round(value * 256) / 256 if kind == "bias" else value, session)


def file_of(stem, layers, after=None, partitioner=None):
    """Build, fill, save, answer; `layers` are (class, arguments ...) of `Layer`."""
    tf.reset_default_graph()
    with tf.variable_scope("", partitioner=partitioner):
        made = [Layer(*one) for one in layers()]
    dense = tf.get_variable("dense/kernel", [H, 2]), tf.get_variable("dense/bias", [2])
    with tf.Session() as session:
        fill(session, stem)
        expected = {}
        for layer in made:
            expected.update(layer.answers(session))
        if after is None:
            tf.train.Saver().save(session, FOLDER.file(stem + ".ckpt"), write_meta_graph=False, write_state=False)
        else:
            after(session, made, dense)
    FOLDER.expect(stem, expected)


def lstm(**options):
    return lambda **more: cells.LSTMCell(H, **dict(options, **more))


def basic(**options):
    return lambda **more: cells.BasicLSTMCell(H, **dict(options, **more))


def block(**options):
    return lambda **more: contrib.rnn.LSTMBlockCell(H, **dict(options, **more))


def fused(**options):
    return lambda **more: contrib.rnn.LSTMBlockFusedCell(H, **dict(options, **more))


FULL = {"use_peepholes": True, "num_proj": P, "cell_clip": 0.5, "proj_clip": 0.25, "activation": tf.nn.relu}


def lstm_layers():
    return [
        ("plain", basic(), 1, True),
        ("full", lstm(forget_bias=0.75, **FULL), 2),
        ("block", block(forget_bias=0.25)),
        ("fused", fused(use_peephole=True, cell_clip=0.375, forget_bias=2.0), 1, False, "fused"),
        ("renamed", basic(name="encoder", forget_bias=-0.5)),
    ]


def gru_layers():
    return [
        ("deep", lambda: cells.GRUCell(H), 2, True),
        ("relu", lambda: cells.GRUCell(H, activation=tf.nn.relu)),
        ("block_gru", lambda: contrib.rnn.GRUBlockCell(H)),
        ("inside", lambda: cells.GRUCell(H), 2, True, "inside"),
        ("elman", lambda: cells.BasicRNNCell(H), 2),
    ]


def cudnn_layers():
    """Under the names of CudnnLSTM(name="both"), CudnnGRU(name="one") and their canonical variables."""
    lstm_cell, gru_cell = contrib.cudnn_rnn.CudnnCompatibleLSTMCell, contrib.cudnn_rnn.CudnnCompatibleGRUCell
    return [
        ("both/stack_bidirectional_rnn", lambda: lstm_cell(H), 2, True),
        ("one/rnn", lambda: gru_cell(H), 2),
    ]


def with_graph(stem):
    def save(session, made, dense):
        saver = tf.train.Saver()
        saver.save(session, FOLDER.file(stem + ".ckpt"), write_meta_graph=False, write_state=False)
        with open(FOLDER.file(stem + ".ckpt.meta"), "wb") as out:
            out.write(thin_meta().SerializeToString())

    return save


def thin_meta():
    """What Saver writes, without what makes it large and says nothing: the list of operations, the collections."""
    meta = tf.train.export_meta_graph(strip_default_attrs=True)
    meta.meta_info_def.ClearField("stripped_op_list")
    for key in list(meta.collection_def):
        del meta.collection_def[key]
    return meta


def frozen(session, made, dense):
    outputs = [layer.y.op.name for layer in made]
    graph = tf.graph_util.convert_variables_to_constants(session, session.graph_def, outputs)
    with open(FOLDER.file("frozen.pb"), "wb") as out:
        out.write(graph.SerializeToString())


def saved(session, made, dense):
    folder = FOLDER.file("saved")
    shutil.rmtree(folder, ignore_errors=True)
    tf.saved_model.simple_save(session, folder, {"lengths": made[0].lengths}, {"y": made[0].y})


def row_layers():
    both = {"layers": 2, "both": True}
    peeping = {"use_peephole": True}
    lstm_cell, gru_cell = contrib.cudnn_rnn.CudnnCompatibleLSTMCell, contrib.cudnn_rnn.CudnnCompatibleGRUCell
    return {
        "BasicLSTMCell": (basic(), both),
        "LSTMCell": (lstm(use_peepholes=True, num_proj=P), both),
        "LSTMBlockCell": (block(**peeping), both),
        "LSTMBlockFusedCell": (fused(**peeping), dict(both, wrap="fused")),
        "CudnnCompatibleLSTMCell": (lambda: lstm_cell(H), both),
        "GRUCell": (lambda: cells.GRUCell(H), both),
        "GRUBlockCell": (lambda: contrib.rnn.GRUBlockCell(H), both),
        "CudnnCompatibleGRUCell": (lambda: gru_cell(H), both),
        "BasicRNNCell": (lambda: cells.BasicRNNCell(H), both),
    }


def own_name(name):
    """'GRUCell/cell_1/bidirectional_rnn/bw/gru_cell/gates/kernel' -> '1/bw/gates/kernel'"""
    parts = name.split("/")
    if parts[0] == "LSTMBlockFusedCell":
        return "%s/%s/%s" % (parts[1][0], {"f": "fw", "b": "bw"}[parts[1][1]], parts[-1])
    return "/".join([parts[1][len("cell_") :], parts[3]] + parts[5:])


def rows_file():
    found = {}
    for name, (make, options) in row_layers().items():
        tf.reset_default_graph()
        layer = Layer(name, make, **options)
        with tf.Session() as session:
            fill(session, "row " + name)
            found.update(layer.answers(session))
            for variable, value in zip(tf.global_variables(), session.run(tf.global_variables())):
                found["%s|array|%s" % (name, own_name(variable.op.name))] = value
    np.savez_compressed(FOLDER.file("rows.npz"), **found)
    FOLDER.say(["rows.npz"], "arrays in the layout of every row, and what TensorFlow makes of them", OWN)


def checkpoint(stem, what):
    parts = [".ckpt.index", ".ckpt.data-00000-of-00001", ".ckpt.meta"]
    FOLDER.say([stem + end for end in parts if os.path.exists(FOLDER.file(stem + end))], what, OWN)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    file_of("lstm", lstm_layers, with_graph("lstm"))
    checkpoint("lstm", "LSTM cells of every class by Saver, and their graph without its list of operations")
    file_of("gru", gru_layers)
    checkpoint("gru", "GRU and plain cells by Saver, without the graph; a stack in each direction")
    file_of("cudnn", cudnn_layers)
    checkpoint("cudnn", "CudnnCompatible cells under the names of CudnnLSTM's and CudnnGRU's canonical variables")
    file_of("parts", lambda: gru_layers()[1:2], partitioner=tf.fixed_size_partitioner(2))
    checkpoint("parts", "a GRUCell whose variables are partitioned: slices")
    file_of("frozen", lambda: lstm_layers()[:2] + gru_layers()[1:2], frozen)
    FOLDER.say(["frozen.pb"], "a frozen graph, by convert_variables_to_constants", OWN)
    file_of("saved", lambda: lstm_layers()[1:2], saved)
    names = ["saved/saved_model.pb", "saved/variables/variables.index", "saved/variables/variables.data-00000-of-00001"]
    FOLDER.say(names, "a SavedModel, by simple_save", OWN)
    rows_file()
    FOLDER.close()
