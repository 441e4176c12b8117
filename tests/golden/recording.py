"""What the golden scripts share: seeded weights, what a layer answers, and the provenance file.

Knows the Keras API that Keras 2.3.1, tf.keras 1.15, tf_keras and Keras 3 have in common, through the `keras` module
that a script hands in; imports none of them, and nothing of the project: what it writes must not depend on what it
judges. Runs on Python 3.6 and later.
"""

import copy
import json
import os
import platform
import sys
import zlib

import h5py
import numpy as np

SEED = 20240611
RECURRENT = ("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "CuDNNLSTM", "CuDNNGRU")
LSTM_LIKE = ("LSTM", "LSTMCell", "CuDNNLSTM")
HERE = os.path.dirname(os.path.abspath(__file__))


def rng_for(name):
    """A generator of its own for every file, so that adding a file changes no other."""
    return np.random.RandomState((SEED + zlib.crc32(name.encode("utf8"))) % 2**32)


def draw_weights(model, rng):
    """Fill every array of `model` with seeded values: biases distinct and never zero, kernels wide enough to reach both
    ends of a hard sigmoid, recurrent kernels narrow enough for relu to stay finite."""
    for layer in model.layers:
        layer.set_weights([draw(w.name, tuple(int(n) for n in w.shape), rng) for w in layer.weights])


def same_weights(one, other):
    """Both models hold the same numbers, to the bit."""
    pairs = list(zip(one.get_weights(), other.get_weights()))
    assert pairs
    assert len(one.get_weights()) == len(other.get_weights())
    assert all(np.array_equal(a, b) for a, b in pairs)


def draw(name, shape, rng):
    """Values for one array, by what its name says it is."""
    if "variance" in name:
        return rng.uniform(0.5, 1.5, shape).astype("float32")
    if "recurrent" in name:
        return (0.4 * rng.standard_normal(shape)).astype("float32")
    if "bias" in name:
        return (rng.choice([-1.0, 1.0], shape) * rng.uniform(0.1, 0.9, shape)).astype("float32")
    return (0.7 * rng.standard_normal(shape)).astype("float32")


def recurrent_layers(container, prefix=""):
    """(path, layer) for every recurrent layer in the order of the file; the path joins the names of the models and
    TimeDistributed wrappers on the way with '/'."""
    for layer in container.layers:
        for found in _recurrent_in(layer, prefix + layer.name):
            yield found


def _recurrent_in(layer, path):
    if layer.__class__.__name__ == "TimeDistributed":
        return _recurrent_in(layer.layer, path + "/" + layer.layer.name)
    if hasattr(layer, "layers"):
        return list(recurrent_layers(layer, path + "/"))
    return [(path, layer)] if layer.__class__.__name__ in RECURRENT else []


def record_model(keras, model, rng, cases=("masked", "state")):
    """The expected arrays of every recurrent layer of `model`, keyed '<path>|<what>' (see README.md)."""
    expected = {}
    for path, layer in recurrent_layers(model):
        for key, value in record_layer(keras, layer, rng, cases).items():
            expected[path + "|" + key] = value
    return expected


def record_layer(keras, layer, rng, cases, batch=3, steps=5):
    """Run a float32 copy of `layer` (same weights, return_sequences and return_state on) and keep what it answers."""
    weights = [np.asarray(w, dtype="float32") for w in layer.get_weights()]
    input_size = weights[0].shape[0]
    x = rng.standard_normal((batch, steps, input_size)).astype("float32")
    lengths = rng.permutation([0, steps, steps - 2][:batch]).astype("int64")
    valid = np.arange(steps)[None, :, None] < lengths[:, None, None]
    config, suffixes = full_sequence_config(layer)
    states = [rng.standard_normal((batch, _units(config))).astype("float32") for _ in suffixes]

    twin = layer.__class__.from_config(copy.deepcopy(config))
    x_in = keras.layers.Input((steps, input_size), name="x")
    outputs = list(_as_list(twin(x_in)))
    twin.set_weights(weights)
    values = _run(keras, [x_in], outputs, [x])
    arrays = {"x": x}
    arrays.update(_named(values, config, suffixes))
    if "masked" in cases:
        arrays["lengths"] = lengths
        masked_in = keras.layers.Masking(0.0)(x_in)
        answer = _run(keras, [x_in], list(_as_list(twin(masked_in))), [np.where(valid, x, np.float32(0))])
        arrays.update((key + "_masked", value) for key, value in _named(answer, config, suffixes).items())
    if states and "state" in cases:
        state_in = [keras.layers.Input((s.shape[1],), name="state_%d" % k) for k, s in enumerate(states)]
        answer = _run(keras, [x_in] + state_in, list(_as_list(twin(x_in, initial_state=state_in))), [x] + states)
        arrays.update((_initial(suffix), state) for suffix, state in zip(suffixes, states))
        named = _named(answer, config, suffixes)
        arrays.update((key + "_from_state", value) for key, value in named.items() if key.startswith("y"))
    return arrays


def full_sequence_config(layer):
    """(config of a float32 copy that returns the sequence and its states, names of the states in Keras's order)."""
    config = copy.deepcopy(layer.get_config())
    inner = config["layer"]["config"] if "layer" in config else config
    inner_class = config["layer"]["class_name"] if "layer" in config else layer.__class__.__name__
    cell_class = inner["cell"]["class_name"] if "cell" in inner else inner_class
    stacked = cell_class == "StackedRNNCells"
    parts = [config] + [config[key]["config"] for key in ("layer", "backward_layer") if key in config]
    for part in parts:
        part["name"] = "copy%d" % parts.index(part)
        part.pop("batch_input_shape", None)
        if "dtype" in part:
            part["dtype"] = "float32"
        if "time_major" in part:
            part["time_major"] = False
        if "return_sequences" in part:
            part.update(return_sequences=True, return_state=not stacked, stateful=False)
    if stacked:
        return config, []
    kinds = ["h", "c"] if cell_class in LSTM_LIKE else ["h"]
    directions = ["_forward", "_backward"] if "layer" in config else [""]
    return config, [kind + direction for direction in directions for kind in kinds]


def _units(config):
    inner = config["layer"]["config"] if "layer" in config else config
    return inner["cell"]["config"]["units"] if "cell" in inner else inner["units"]


def _initial(suffix):
    """'h_forward' -> 'h0_forward'"""
    return suffix[0] + "0" + suffix[1:]


def _named(values, config, suffixes):
    apart = "layer" in config and config["merge_mode"] is None
    names = (["y_forward", "y_backward"] if apart else ["y"]) + suffixes
    assert len(names) == len(values), (names, [v.shape for v in values])
    return dict(zip(names, values))


def _as_list(outputs):
    return outputs if isinstance(outputs, (list, tuple)) else [outputs]


def _run(keras, inputs, outputs, values):
    answer = keras.models.Model(inputs, outputs).predict_on_batch(values if len(values) > 1 else values[0])
    return [np.asarray(a, dtype="float32") for a in _as_list(answer)]


class Folder:
    """One producer's folder: where its files go and what its PROVENANCE.json says about them."""

    def __init__(self, producer, script, command, versions, notes):
        self.path = os.path.join(HERE, producer)
        if not os.path.isdir(self.path):
            os.makedirs(self.path)
        self.head = {
            "producer": producer,
            "versions": dict(versions, python=platform.python_version(), numpy=np.__version__, h5py=h5py.__version__),
            "script": "tests/golden/" + script,
            "command": command,
            "seed": SEED,
            "licence": "Apache-2.0; the weights are random numbers drawn by the script",
            "notes": notes,
        }
        self.files = {}

    def file(self, name):
        return os.path.join(self.path, name)

    def expect(self, stem, arrays):
        """Write <stem>.expected.npz; layer names may hold '/', which becomes a folder inside the archive."""
        np.savez_compressed(self.file(stem + ".expected.npz"), **arrays)

    def say(self, names, what, how):
        """Note what the files `names` are and how the values in their expected file were made."""
        for name in names:
            expected = name.split(".")[0] + ".expected.npz"
            has_values = os.path.exists(self.file(expected))
            self.files[name] = {"what": what, "expected": expected if has_values else None, "expected_from": how}

    def close(self):
        assert all(os.path.exists(self.file(name)) for name in self.files), self.files
        with open(self.file("PROVENANCE.json"), "w") as out:
            json.dump(dict(self.head, files=self.files), out, indent=1, sort_keys=True)
            out.write("\n")
        sys.stdout.write("%s: %d files\n" % (self.path, len(self.files)))
