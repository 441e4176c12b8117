"""Operators of Paddle 1, `gru`, `gru_unit` and `lstm`, run by PaddlePaddle 3.3.1 after an fc. For write_paddle.py."""

import numpy as np
import paddle
from paddle import static
from paddle.pir_utils import OldIrGuard
from recording import draw

I, H, T, N = 5, 3, 7, 3


def operator(kind, arrays, x, states, lengths, **attributes):
    """The outputs [sum of lengths, H] of an operator of Paddle 1 after an fc. x [T, N, I] -> y [T, N, H], finals."""
    paddle.enable_static()
    try:
        if kind == "gru_unit":
            return _steps(arrays, x, states[0], attributes)
        return _operator(kind, arrays, x, states, lengths, attributes)
    finally:
        paddle.disable_static()


def _steps(arrays, x, state, attributes):
    """A gru_unit makes one step; it is run once for each."""
    outputs = []
    for step in x:
        y, _ = _operator("gru_unit", arrays, step[None], [state], [1] * len(state), attributes)
        state = y[0]
        outputs.append(state)
    return np.stack(outputs), [state[None]]


def _operator(kind, arrays, x, states, lengths, attributes):
    joined = np.concatenate([x[:length, n] for n, length in enumerate(lengths)])
    feed = dict(arrays, x=joined, **{"state%d" % k: state for k, state in enumerate(states)})
    with OldIrGuard():
        main = static.Program()
        block = main.global_block()
        have = {}
        for name, array in feed.items():
            have[name] = block.create_var(name=name, shape=array.shape, dtype="float32", lod_level=int(name == "x"))

        def add(op, inputs, outputs, **more):
            made = [block.create_var(name="%s_%s" % (op, name), dtype="float32") for name in outputs]
            named = {name: [value] for name, value in inputs.items()}
            block.append_op(type=op, inputs=named, outputs=dict(zip(outputs, made)), attrs=more)
            return dict(zip(outputs, made))

        product = add("mul", {"X": have["x"], "Y": have["fc.w_0"]}, ["Out"])["Out"]
        if "fc.b_0" in have:
            product = add("elementwise_add", {"X": product, "Y": have["fc.b_0"]}, ["Out"], axis=1)["Out"]
        before = "HiddenPrev" if kind == "gru_unit" else "H0"
        inputs = {"Input": product, "Weight": have["w_0"], before: have["state0"]}
        inputs.update({"Bias": have["b_0"]} if "b_0" in have else {})
        inputs.update({"C0": have["state1"]} if "state1" in have else {})
        outputs = {
            "gru": ["Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"],
            "gru_unit": ["Hidden", "Gate", "ResetHiddenPrev"],
            "lstm": ["Hidden", "Cell", "BatchGate", "BatchCellPreAct"],
        }[kind]
        made = add(kind, inputs, outputs, **attributes)
        wanted = [made[name] for name in outputs if name in ("Hidden", "Cell")]
        given = {}
        for name, array in feed.items():
            tensor = paddle.base.core.DenseTensor()
            tensor.set(array, paddle.CPUPlace())
            if name == "x":
                tensor.set_recursive_sequence_lengths([list(lengths)])
            given[name] = tensor
        found = static.Executor(paddle.CPUPlace()).run(main, feed=given, fetch_list=wanted, return_numpy=False)
    found = [np.array(one) for one in found]
    ends = np.cumsum([0, *lengths])
    y = np.zeros((len(x), len(lengths), found[0].shape[1]), "float32")
    for n, length in enumerate(lengths):
        y[:length, n] = found[0][ends[n] : ends[n + 1]]
    last = [(ends[n] if attributes.get("is_reverse") else ends[n + 1] - 1) for n in range(len(lengths))]
    return y, [one[last][None] for one in found]


def operator_arrays(kind, rng, fc_bias, peepholes):
    gates = 4 if kind == "lstm" else 3
    arrays = {"fc.w_0": draw("kernel", (I, gates * H), rng), "w_0": draw("recurrent", (H, gates * H), rng)}
    arrays["b_0"] = draw("bias", (1, (gates + 3 * peepholes) * H), rng)
    if fc_bias:
        arrays["fc.b_0"] = draw("bias", (gates * H,), rng)
    return arrays


def operator_answers(kind, arrays, rng, lengths=None, **attributes):
    x = rng.standard_normal((T, N, I)).astype("float32")
    states = [rng.uniform(-0.9, 0.9, (N, H)).astype("float32") for _ in range(2 if kind == "lstm" else 1)]
    y, finals = operator(kind, arrays, x, states, [T] * N, **attributes)
    found = {"x": x, "y": y}
    found.update(("state%d" % k, state[None]) for k, state in enumerate(states))
    found.update(("final%d" % k, state) for k, state in enumerate(finals))
    if lengths is not None:
        y, finals = operator(kind, arrays, x, states, lengths, **attributes)
        found.update(lengths=np.array(lengths), y_masked=y)
        found.update(("final%d_masked" % k, state) for k, state in enumerate(finals))
    return found


def parts(kind, arrays):
    """An operator's arrays as the rows name them: the two matrices in a GRU's weight, and what is in a bias."""
    found = {name: array for name, array in arrays.items() if name.startswith("fc")}
    weight, bias, gates = arrays["w_0"], arrays["b_0"].reshape(-1), {"lstm": 4, "gru": 3}[kind] * H
    if kind == "gru":
        found["w_0[gates]"] = weight.reshape(-1)[: 2 * H * H].reshape(H, 2 * H)
        found["w_0[candidate]"] = weight.reshape(-1)[2 * H * H :].reshape(H, H)
    else:
        found.update({"w_0": weight, "b_0[peepholes]": bias[gates:]})
    return dict(found, **{"b_0[gates]": bias[:gates]})
