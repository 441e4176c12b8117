"""What oneDNN 3.2 answers for memories in the layout of every row: onednn_rnn.cpp runs its primitives.

`rows.npz` judges the rows: under `<row>|array|<name>` the memories of a layer, `x` [T, N, I], `state<k>` [L, D, N, .]
what went in, `y`, `final<k>` what came out. `stack|...` is an LSTM of three layers in one primitive. MKL-DNN 0.14's
order of gates is not in any version that installs: its LSTM is oneDNN 3.2's with the gates of its memories put into
the order of 3.2 first, as the two sources have them.
"""

import tempfile

import numpy as np
from onednn_program import build, run
from recording import Folder, draw, rng_for

I, H, P, T, N = 5, 3, 2, 7, 3
OWN = "oneDNN 3.2 on a CPU, by tests/golden/onednn_rnn.cpp"
FOLDER = Folder(
    "onednn-3.2",
    "write_onednn.py",
    "python3.11 tests/golden/write_onednn.py",
    {"onednn-cpu-gomp": "2023.2.0 (oneDNN 3.2)"},
    "The order of gates of lstm@0.14 (f i o c) is MKL-DNN's by its source; oneDNN 3.2 ran it in its own (i f c o).",
)
GATES = {"lstm": 4, "lstm@0.14": 4, "gru": 3, "lbr_gru": 3, "vanilla_rnn": 1}
FROM_OLD = [1, 0, 3, 2]  # where i f c o stand in f i o c
GATE_AXIS = {"ldigo": 3, "ldgoi": 2}


def memories(kind, tag, rng, layers=1, both=2, inputs=I, more=True):
    """A layer's arrays by the names of an archive; an LSTM of today has peepholes and a projection."""
    gates, state = GATES[kind], P if kind == "lstm" and more else H
    order = (
        (lambda wide: (layers, both, wide, gates, H))
        if tag == "ldigo"
        else (lambda wide: (layers, both, gates, H, wide))
    )
    arrays = {
        "weights_layer_" + tag: draw("kernel", order(inputs), rng),
        "weights_iter_" + tag: draw("recurrent", order(state), rng),
        "bias_ldgo": draw("bias", (layers, both, gates + (kind == "lbr_gru"), H), rng),
    }
    if kind == "lstm" and more:
        name, shape = ("ldio", (1, both, H, P)) if tag == "ldigo" else ("ldoi", (1, both, P, H))
        arrays["weights_peephole_ldgo"] = draw("bias", (layers, both, 3, H), rng)
        arrays["weights_projection_" + name] = draw("kernel", shape, rng)
    return arrays


def in_todays_order(arrays):
    """The same layer with the gates of 0.14 where 3.2 has them."""
    axes = {name: 2 if name == "bias_ldgo" else GATE_AXIS[name[-5:]] for name in arrays}
    return {name: np.take(array, FROM_OLD, axes[name]) for name, array in arrays.items()}


def answers(program, kind, direction, arrays, rng):
    weights, bias = next(iter(arrays.values())), arrays["bias_ldgo"]
    inputs = weights.shape[2] if "weights_layer_ldigo" in arrays else weights.shape[4]
    iter_ = arrays.get("weights_iter_ldigo")
    state = arrays["weights_iter_ldgoi"].shape[4] if iter_ is None else iter_.shape[2]
    x = rng.standard_normal((T, N, inputs)).astype("float32")
    widths = (state, H) if kind.startswith("lstm") else (state,)
    states = [rng.uniform(-0.9, 0.9, (*bias.shape[:2], N, wide)).astype("float32") for wide in widths]
    ran = in_todays_order(arrays) if kind == "lstm@0.14" else arrays
    y, finals = run(program, kind.partition("@")[0], direction, ran, x, states)
    found = {"x": x, "y": y}
    found.update(("state%d" % k, one) for k, one in enumerate(states))
    found.update(("final%d" % k, one) for k, one in enumerate(finals))
    found.update(("array|" + name, array) for name, array in arrays.items())
    return found


def main():
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        for kind in GATES:
            for tag in GATE_AXIS:
                rng, row = rng_for("onednn %s %s" % (kind, tag)), "%s %s" % (kind, tag)
                made = answers(program, kind, "concat", memories(kind, tag, rng), rng)
                found.update((row + "|" + key, array) for key, array in made.items())
        for direction in ("forward", "reverse", "sum"):
            rng = rng_for("onednn " + direction)
            arrays = memories("lbr_gru", "ldigo", rng, both=1 + (direction == "sum"))
            made = answers(program, "lbr_gru", direction, arrays, rng)
            found.update((direction + "|" + key, array) for key, array in made.items())
        rng = rng_for("onednn stack")
        made = answers(program, "lstm", "forward", memories("lstm", "ldigo", rng, 3, 1, H, more=False), rng)
        found.update(("stack|" + key, array) for key, array in made.items())
    np.savez_compressed(FOLDER.file("rows.npz"), **found)
    what = "memories in the layout of every row, in three more directions (lbr_gru), in three layers, and the answers"
    FOLDER.say(["rows.npz"], what, OWN)
    FOLDER.close()


if __name__ == "__main__":
    main()
