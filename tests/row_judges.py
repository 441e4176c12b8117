"""Every framework's own layer, filled with arrays in the layout of one of its rows, and run: what judges the rows.

States go in and come out in the framework's own order. Nothing here reads a row's facts but its names.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnbridge.catalogue import catalogue
from rnnbridge.convention import Convention
from rnnbridge.reference import forward
from rnnbridge.spec import RNNSpec
from tests.samples import H, I

Array = np.ndarray
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Task:
    """A row's layer to be run: x [T, N, I], states [L*D, N, .] in the framework's order, lengths [N] or None."""

    row: Convention
    spec: RNNSpec
    arrays: Arrays
    x: Array
    states: Sequence[Array]
    lengths: Array | None = None


@dataclass(frozen=True)
class Answer:
    """y [T, N, .], and the final states [L*D, N, .] in the framework's order."""

    y: Array
    states: list[Array]


@dataclass(frozen=True)
class RowJudge:
    """A framework: what its layers are beyond one layer in one direction, and how one is run.

    A framework that cannot live in the suite once ran arrays of its own: `recorded` puts those, and what went in
    with them, in a task's place, and `run` gives its answer.
    """

    most: Callable[[Convention], dict[str, Any]]
    run: Callable[[Task], Answer]
    recorded: Callable[[Task], Task] | None = None


def _pytorch_most(row: Convention) -> dict[str, Any]:
    both = {} if row.layer.endswith("Cell") else {"direction": "bidirectional", "num_layers": 2}
    return both | ({"proj_size": 2} if row.layer.startswith("LSTM") and both else {})


def in_pytorch(task: Task) -> Answer:
    """The arrays are loaded as the module's state_dict; the module runs."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: its rows go unjudged")
    spec, cell = task.spec, task.row.layer.endswith("Cell")
    more = {} if cell else {"num_layers": spec.num_layers, "bidirectional": spec.num_directions == 2}
    more |= {"proj_size": spec.proj_size} if spec.proj_size else {}
    warnings.filterwarnings("ignore", "LSTM with projections")  # torch says that it takes its slower path
    module = getattr(torch.nn, task.row.layer)(I, H, **more).requires_grad_(False)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in task.arrays.items()})
    states = [torch.from_numpy(state) for state in task.states]
    if cell:
        return _cell_in_pytorch(module, torch.from_numpy(task.x), [state[0] for state in states])
    x, rnn = torch.from_numpy(task.x), torch.nn.utils.rnn
    if task.lengths is not None:
        x = rnn.pack_padded_sequence(x, torch.from_numpy(task.lengths), enforce_sorted=False)
    y, final = module(x, tuple(states) if len(states) > 1 else states[0])
    y = y if task.lengths is None else rnn.pad_packed_sequence(y, total_length=len(task.x))[0]
    return Answer(y.numpy(), [state.numpy() for state in (final if len(states) > 1 else [final])])


def _cell_in_pytorch(cell: Any, x: Any, states: list[Any]) -> Answer:
    y = []
    for step in x:
        final = cell(step, tuple(states) if len(states) > 1 else states[0])
        states = list(final) if len(states) > 1 else [final]
        y.append(states[0].numpy())
    return Answer(np.stack(y), [state.numpy()[None] for state in states])


def in_onnxruntime(task: Task) -> Answer:
    """One node around the arrays, run by ONNX Runtime."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: its rows go unjudged")
    onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed: ONNX's rows go unjudged")
    spec = task.spec
    held = dict(task.arrays) | {f"state{index}": state for index, state in enumerate(task.states)}
    held |= {} if task.lengths is None else {"lengths": task.lengths.astype(np.int32)}
    lstm = ["state1", "P" if "P" in held else ""] if spec.cell == "lstm" else []
    names = ["X", "W", "R", "B", "lengths" if "lengths" in held else "", "state0", *lstm]
    attributes = {"linear_before_reset": 1} if spec.reset == "after" else {}
    outputs = ["Y", *(f"final{index}" for index in range(len(task.states)))]
    node = onnx.helper.make_node(task.row.layer, names, outputs, direction=spec.direction, hidden_size=H, **attributes)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "judge", [value("X", 1, ["T", "N", I])], [value(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in held.items()],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    y, *states = session.run(None, {"X": task.x})  # y [T, D, N, H]
    return Answer(np.concatenate([y[:, d] for d in range(spec.num_directions)], axis=-1), states)


def in_keras(task: Task) -> Answer:
    """Keras 3 for its own rows; tf_keras for older ones, whose loader converts the arrays of other layers.

    A layer of each direction runs by itself.
    """
    version = task.row.layer.partition("@")[2] or "2"
    package = "keras" if version == "3" else "tf_keras"
    keras = pytest.importorskip(package, reason=f"{package} is not installed: its rows go unjudged")
    tensor = importlib.import_module("tensorflow").constant
    kind = {"lstm": "LSTM", "gru": "GRU", "rnn": "SimpleRNN"}[task.spec.cell]
    form = {"reset_after": task.spec.reset == "after"} if task.spec.reset else {}
    mask = None if task.lengths is None else tensor(np.arange(len(task.x)) < task.lengths[:, None])
    outputs, finals = [], []
    for direction in range(task.spec.num_directions):
        backwards = direction == 1
        layer = getattr(keras.layers, kind)(H, return_sequences=True, return_state=True, go_backwards=backwards, **form)
        layer.build((task.x.shape[1], None, I))
        arrays = [task.arrays[task.row.array_name(slot, 0, direction)] for slot in task.row.slots]
        layer.set_weights(arrays if version == "3" else _converted(layer, arrays, version))
        states = [tensor(state[direction]) for state in task.states]
        y, *final = layer(tensor(task.x.transpose(1, 0, 2)), initial_state=states, mask=mask)
        outputs.append(np.asarray(y).transpose(1, 0, 2)[:: -1 if backwards else 1])
        finals.append([np.asarray(state) for state in final])
    return Answer(np.concatenate(outputs, axis=-1), [np.stack(each) for each in zip(*finals, strict=True)])


def _converted(layer: Any, arrays: list[Array], version: str) -> list[Array]:
    from tf_keras.src.saving.legacy.hdf5_format import preprocess_weights_for_loading

    return preprocess_weights_for_loading(layer, arrays, "1" if version == "1" else "2.3.1", "tensorflow")


def in_npz(task: Task) -> Answer:
    """Our own format is the canonical form itself, so the arrays are canonical ones and the reference runs them."""
    y, *states = forward(task.spec, task.arrays, task.x, *task.states, lengths=task.lengths)
    return Answer(y, [state for state in states if state is not None])


def _mxnet_most(row: Convention) -> dict[str, Any]:
    both = {} if row.layer.endswith("Cell") else {"direction": "bidirectional", "num_layers": 2}
    return both | ({"proj_size": 2} if row.layer in ("LSTM", "LSTMPCell") else {})


def recorded_by_mxnet(task: Task) -> Task:
    """The arrays, input and states that MXNet 1.9.1 ran, in place of the task's."""
    if task.lengths is not None:
        pytest.skip("MXNet on a CPU ignores lengths, so that it has no answer with them")
    held = {key.partition("|")[2]: array for key, array in _MXNET.items() if key.partition("|")[0] == task.row.layer}
    arrays = {key.removeprefix("array|"): array for key, array in held.items() if key.startswith("array|")}
    assert arrays.keys() == task.arrays.keys()
    return replace(task, arrays=arrays, x=held["x"], states=_numbered(held, "state"))


def in_mxnet(task: Task) -> Answer:
    """What MXNet 1.9.1 answered; tests/golden/write_mxnet.py asked it."""
    held = {key.partition("|")[2]: array for key, array in _MXNET.items() if key.partition("|")[0] == task.row.layer}
    return Answer(held["y"], _numbered(held, "final"))


def _paddle_most(row: Convention) -> dict[str, Any]:
    if row.layer.startswith("dynamic"):
        return {"peephole": True} if row.cell == "lstm" else {}
    both = {} if row.layer.endswith("Cell") else {"direction": "bidirectional", "num_layers": 2}
    return both | ({"proj_size": 2} if row.cell == "lstm" else {})


def _of_paddle(task: Task) -> Arrays:
    """What was recorded of a row's layer, without lengths or with the task's."""
    case = "" if task.lengths is None else ",".join(map(str, task.lengths))
    beginning = f"{task.row.layer}|{case}|"
    return {key.removeprefix(beginning): array for key, array in _PADDLE.items() if key.startswith(beginning)}


def recorded_by_paddle(task: Task) -> Task:
    """The arrays, input and states that Paddle 3.3.1 ran, in place of the task's."""
    held = _of_paddle(task)
    arrays = {key.removeprefix("array|"): array for key, array in held.items() if key.startswith("array|")}
    if task.lengths is None:
        assert arrays.keys() == task.arrays.keys()
    return replace(task, arrays=arrays, x=held["x"], states=_numbered(held, "state"))


def in_paddle(task: Task) -> Answer:
    """What Paddle 3.3.1 answered; tests/golden/write_paddle.py asked it."""
    held = _of_paddle(task)
    return Answer(held["y"], _numbered(held, "final"))


def _onednn_most(row: Convention) -> dict[str, Any]:
    more = {"proj_size": 2, "peephole": True} if row.layer.startswith("lstm ") else {}
    return {"direction": "bidirectional", **more}


def _of_onednn(task: Task) -> Arrays:
    return {key.partition("|")[2]: array for key, array in _ONEDNN.items() if key.partition("|")[0] == task.row.layer}


def recorded_by_onednn(task: Task) -> Task:
    """The arrays, input and states that oneDNN 3.2 ran, in place of the task's: of their one layer.

    An LBR-GRU's bias has a fourth row.
    """
    held = _of_onednn(task)
    arrays = {key.removeprefix("array|"): array[0] for key, array in held.items() if key.startswith("array|")}
    if task.row.layer.startswith("lbr_gru"):
        bias = arrays.pop("bias_ldgo")
        arrays |= {"bias_ldgo[:3]": bias[:, :3], "bias_ldgo[3]": bias[:, 3]}
    assert arrays.keys() == task.arrays.keys()
    return replace(task, arrays=arrays, x=held["x"], states=_along_l(_numbered(held, "state")))


def in_onednn(task: Task) -> Answer:
    """What oneDNN 3.2 answered; tests/golden/write_onednn.py asked it."""
    held = _of_onednn(task)
    return Answer(held["y"], _along_l(_numbered(held, "final")))


def _along_l(states: list[Array]) -> list[Array]:
    """[L, D, N, .] -> [L*D, N, .]"""
    return [state.reshape(-1, *state.shape[2:]) for state in states]


def _numbered(held: Arrays, word: str) -> list[Array]:
    return [held[key] for key in sorted(held) if key.startswith(word)]


def in_cudnn(task: Task) -> Answer:
    """cuDNN needs a GPU. PyTorch's modules stand in: on a GPU they run by it on the same arrays, permuting none."""
    zeros = {}
    if task.spec.bias == "single":
        zeros = {name.replace("bias_ih", "bias_hh"): 0 * array for name, array in task.arrays.items() if "bias" in name}
    name = f"pytorch.{task.row.layer.removesuffix(' with one bias')}"
    return in_pytorch(replace(task, row=catalogue().rows[name], arrays={**task.arrays, **zeros}))


def in_arraymancer(task: Task) -> Answer:
    """The equations at the head of its nnp_gru.nim, in NumPy: there is no Python in which it runs."""
    y, hidden = task.x, task.states[0].copy()
    for layer in range(task.spec.num_layers):
        w, u = task.arrays[f"W3s{layer}"], task.arrays["U3s"][layer]
        bw, bu = task.arrays["bW3s"][layer], task.arrays["bU3s"][layer]
        outputs = []
        for x in y:
            w3x, u3h = x @ w.T + bw, hidden[layer] @ u.T + bu
            r = _sigmoid(w3x[:, :H] + u3h[:, :H])
            z = _sigmoid(w3x[:, H : 2 * H] + u3h[:, H : 2 * H])
            n = np.tanh(w3x[:, 2 * H :] + r * u3h[:, 2 * H :])
            hidden[layer] = (1 - z) * n + z * hidden[layer]
            outputs.append(hidden[layer].copy())
        y = np.stack(outputs)
    return Answer(y, [hidden])


def _sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


def without_lengths(task: Task) -> Task:
    """Arraymancer's GRU takes none."""
    if task.lengths is not None:
        pytest.skip("Arraymancer's GRU knows no lengths")
    return task


def _tensorflow_most(row: Convention) -> dict[str, Any]:
    more = {"proj_size": 2} if row.layer == "LSTMCell" else {}
    return {"direction": "bidirectional", "num_layers": 2, "peephole": "peephole" in row.extras, **more}


def recorded_by_tensorflow(task: Task) -> Task:
    """The arrays, input and states that TensorFlow 1.15.5 ran; cuDNN's buffers need a GPU and are run as they come."""
    if task.row.layer in _OPAQUE:
        return task
    held = {key.partition("|")[2]: array for key, array in _TENSORFLOW.items() if key.startswith(f"{task.row.layer}|")}
    arrays = {key.removeprefix("array|"): array for key, array in held.items() if key.startswith("array|")}
    states = _numbered({key: array for key, array in held.items() if key.count("|") == 0}, "state")
    most = _tensorflow_most(task.row)  # a task with lengths has one layer in one direction; the recorded one has all
    spec = task.spec.replace(**most)
    assert arrays.keys() == {task.row.array_name(s, k, d) for k, d, _ in spec.positions() for s in task.row.slots}
    return replace(task, spec=spec, arrays=arrays, x=held["x"], states=states)


def in_tensorflow(task: Task) -> Answer:
    """What TensorFlow 1.15.5 answered; tests/golden/write_tensorflow1.py asked it. PyTorch stands in for cuDNN."""
    if task.row.layer in _OPAQUE:
        row = catalogue().rows[f"pytorch.{task.row.layer.removeprefix('Cudnn')}"]
        places = [(k, d, slot) for k, d, _ in task.spec.positions() for slot in range(4)]
        names = {row.array_name(row.slots[s], k, d): task.row.array_name(task.row.slots[s], k, d) for k, d, s in places}
        arrays = {name: task.arrays[own] for name, own in names.items()}
        return in_pytorch(replace(task, row=row, arrays=arrays))
    end = "" if task.lengths is None or (task.lengths == len(task.x)).all() else "|" + "".join(map(str, task.lengths))
    held = {key.partition("|")[2]: array for key, array in _TENSORFLOW.items() if key.startswith(f"{task.row.layer}|")}
    finals = {key: array for key, array in held.items() if key in (f"final0{end}", f"final1{end}")}
    return Answer(held[f"y{end}"], _numbered(finals, "final"))


_OPAQUE = ("CudnnLSTM", "CudnnGRU", "CudnnRNN")
_TENSORFLOW: Arrays = dict(np.load(Path(__file__).parent / "golden" / "tensorflow-1.15.5" / "rows.npz"))
_MXNET: Arrays = dict(np.load(Path(__file__).parent / "golden" / "mxnet-1.9.1" / "rows.npz"))
_ONEDNN: Arrays = dict(np.load(Path(__file__).parent / "golden" / "onednn-3.2" / "rows.npz"))
_PADDLE: Arrays = dict(np.load(Path(__file__).parent / "golden" / "paddle-3.3.1" / "rows.npz"))
JUDGES: dict[str, RowJudge] = {
    "arraymancer": RowJudge(lambda row: {"num_layers": 3}, in_arraymancer, without_lengths),
    "cudnn": RowJudge(_pytorch_most, in_cudnn),
    "mxnet": RowJudge(_mxnet_most, in_mxnet, recorded_by_mxnet),
    "onednn": RowJudge(_onednn_most, in_onednn, recorded_by_onednn),
    "paddle": RowJudge(_paddle_most, in_paddle, recorded_by_paddle),
    "pytorch": RowJudge(_pytorch_most, in_pytorch),
    "onnx": RowJudge(
        lambda row: {"direction": "bidirectional", **({"peephole": True} if row.cell == "lstm" else {})}, in_onnxruntime
    ),
    "tensorflow": RowJudge(_tensorflow_most, in_tensorflow, recorded_by_tensorflow),
    "keras": RowJudge(lambda row: {"direction": "bidirectional"}, in_keras),
    "npz": RowJudge(
        lambda row: {
            "direction": "bidirectional",
            "num_layers": 2,
            **({"proj_size": 2, "peephole": True} if row.cell == "lstm" else {}),
        },
        in_npz,
    ),
}
