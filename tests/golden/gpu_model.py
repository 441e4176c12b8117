"""The demo model of examples/: a recurrent text classifier in Keras's GPU layers, really trained, on made-up texts.

It says what kind of field a short text is: a date, a time, an amount, a colour, an address or a plain word. A twin
of LSTM and GRU(reset_after=True) trains on the CPU, and Keras converts its weights into the cuDNN layers. Imports
no framework: the script hands its Keras in.
"""

import json
import os
import sys

import numpy as np
from recording import HERE, SEED, record_model, rng_for

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples")
ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789.-:@#"  # token k + 1 is ALPHABET[k], token 0 is padding
CLASSES = ["date", "time", "amount", "colour", "address", "word"]
STEPS = 17


def build(keras, lstm_layer, gru_layer):
    layers = keras.layers
    return keras.models.Sequential(
        [
            layers.Embedding(len(ALPHABET) + 1, 13, name="characters", input_shape=(None,)),
            layers.Bidirectional(lstm_layer(24, return_sequences=True, name="reader"), name="both_ways"),
            gru_layer(31, return_sequences=True, name="context"),
            lstm_layer(19, name="summary"),
            layers.Dense(len(CLASSES), activation="softmax", name="kind"),
        ],
        name="field_kind",
    )


def make_texts(rng, count):
    """(texts, class of each)"""
    kinds = rng.randint(0, len(CLASSES), count)
    return [_MAKERS[kind](rng) for kind in kinds], kinds


def _word(rng, shortest=3, longest=8):
    letters = rng.choice(list(ALPHABET[:26]), rng.randint(shortest, longest + 1))
    return "".join(letters)


def _date(rng):
    day, month, year = rng.randint(1, 29), rng.randint(1, 13), rng.randint(1900, 2100)
    return "%d-%02d-%02d" % (year, month, day) if rng.rand() < 0.5 else "%02d.%02d.%d" % (day, month, year)


def _time(rng):
    return ":".join("%02d" % rng.randint(0, 60 if k else 24) for k in range(rng.randint(2, 4)))


def _amount(rng):
    return "%s%d.%02d" % ("-" if rng.rand() < 0.3 else "", rng.randint(0, 10 ** rng.randint(1, 6)), rng.randint(0, 100))


def _colour(rng):
    return "#" + "".join(rng.choice(list("0123456789abcdef"), rng.choice([3, 6])))


def _address(rng):
    return "%s@%s.%s" % (_word(rng, 2, 6), _word(rng, 2, 6), rng.choice(["com", "org", "net", "de"]))


_MAKERS = [_date, _time, _amount, _colour, _address, _word]


def encode(texts):
    """Token ids [N, T], padded with 0 at the end."""
    ids = np.zeros((len(texts), STEPS), "int32")
    for row, text in enumerate(texts):
        ids[row, : len(text)] = [ALPHABET.index(letter) + 1 for letter in text]
    return ids


def write_gpu_model(keras, lstm_layer, gru_layer, fresh_session, command):
    path = os.path.join(EXAMPLES, "gpu_model.h5")
    if not os.path.isdir(EXAMPLES):
        os.makedirs(EXAMPLES)
    twin_path = path + ".twin"
    accuracy = _train_twin(keras, build(keras, lstm_layer, gru_layer), twin_path)
    fresh_session()
    gpu = build(keras, keras.layers.CuDNNLSTM, keras.layers.CuDNNGRU)
    gpu.load_weights(twin_path)
    os.remove(twin_path)
    _part_biases(gpu)
    gpu.save(path)
    fresh_session()
    judge = build(keras, lstm_layer, gru_layer)
    judge.load_weights(path)
    expected = record_model(keras, judge, rng_for("gpu_model x"), cases=["state"])
    expected.update(_whole_model(judge))
    np.savez_compressed(os.path.join(EXAMPLES, "gpu_model.expected.npz"), **expected)
    _write_provenance(keras, command, accuracy)


def _train_twin(keras, twin, path):
    """Train on made-up texts with Keras's own initial values, seeded; returns the accuracy on texts never seen."""
    rng = rng_for("gpu_model training")
    twin.set_weights([_initial(w.name, tuple(int(n) for n in w.shape), rng) for w in twin.weights])
    texts, kinds = make_texts(rng, 4000)
    twin.compile(keras.optimizers.Adam(0.005), "sparse_categorical_crossentropy", metrics=["accuracy"])
    twin.fit(encode(texts), kinds.reshape(-1, 1), batch_size=64, epochs=6, shuffle=False, verbose=0)
    texts, kinds = make_texts(rng_for("gpu_model held out"), 1000)
    accuracy = float(twin.evaluate(encode(texts), kinds.reshape(-1, 1), verbose=0)[1])
    twin.save_weights(path)
    return accuracy


def _initial(name, shape, rng):
    """Glorot kernels, orthogonal recurrent kernels, zero biases but the LSTM's forget bias of 1."""
    if "recurrent" in name:
        gates = shape[1] // shape[0]
        return np.hstack([np.linalg.qr(rng.standard_normal((shape[0], shape[0])))[0] for _ in range(gates)])
    if "bias" in name:
        bias = np.zeros(shape)
        if _is_lstm(name):
            bias[shape[0] // 4 : shape[0] // 2] = 1.0
        return bias
    limit = np.sqrt(6.0 / (shape[0] + shape[-1]))
    return rng.uniform(-limit, limit, shape)


def _is_lstm(name):
    return any(part in name for part in ("reader", "summary"))


def _part_biases(gpu):
    """Keras's conversion halves the LSTM biases. On a GPU both halves get the same gradient, so they differ by what
    they began with: 0 for the input side, 1 on the forget gate for the recurrent side. Put that back; the sum stays."""
    weights = gpu.get_weights()
    for k, weight in enumerate(gpu.weights):
        if "bias" in weight.name and _is_lstm(weight.name):
            h = weights[k].shape[0] // 8
            weights[k][h : 2 * h] -= 0.5
            weights[k][5 * h : 6 * h] += 0.5
    gpu.set_weights(weights)


def _whole_model(judge):
    texts, kinds = make_texts(rng_for("gpu_model shown"), 24)
    ids = encode(texts)
    return {
        "model|x": ids,
        "model|y": judge.predict(ids).astype("float32"),
        "model|text": np.array(texts),
        "model|kind": kinds.astype("int32"),
        "model|classes": np.array(CLASSES),
        "model|alphabet": np.array(ALPHABET),
    }


def _write_provenance(keras, command, accuracy):
    said = {
        "file": "gpu_model.h5",
        "producer": "Keras %s, TensorFlow 1.15.5, Python %s" % (keras.__version__, sys.version.split()[0]),
        "script": "tests/golden/gpu_model.py, called by tests/golden/write_keras2.py",
        "command": command,
        "seed": SEED,
        "licence": "Apache-2.0; trained on texts that the script makes up",
        "what": "a classifier of short texts by the kind of field they are: " + ", ".join(CLASSES),
        "trained": "6 epochs of Adam(0.005) on 4000 made-up texts, as LSTM and GRU(reset_after=True) on a CPU",
        "converted": "Keras's load_weights turned the twin's weights into the cuDNN layers; the two halves of each "
        "LSTM bias then got back the difference (forget gate: 0 and 1) that they keep when trained on a GPU",
        "expected_from": "Keras loads gpu_model.h5 with load_weights into the twin, which answers; no cuDNN layer ran",
        "accuracy_on_1000_unseen_texts": round(accuracy, 4),
    }
    with open(os.path.join(EXAMPLES, "gpu_model.provenance.json"), "w") as out:
        json.dump(said, out, indent=1, sort_keys=True)
        out.write("\n")
