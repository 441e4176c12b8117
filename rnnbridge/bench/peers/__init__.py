"""Everybody who is measured. Ours comes first; a peer's file is named for its brand and imported in its worker only."""

from __future__ import annotations

from rnnbridge.bench.peer import Peer

_HERE = "rnnbridge.bench.peers"
_INFERENCE = ("inference",)

OURS = Peer(
    "rnnbridge",
    "the engine: a Plan, packed once for inference and in every training call",
    f"{_HERE}.ours",
    "rnnbridge",
)
PEERS: tuple[Peer, ...] = (
    Peer("pytorch", "nn.LSTM, nn.GRU, nn.RNN: inference_mode, autograd, packed sequences", f"{_HERE}.pytorch", "torch"),
    Peer("torch-adapter", "rnnbridge.adapters.pytorch: our layers inside PyTorch", f"{_HERE}.adapter", "torch"),
    Peer("torchscript", "PyTorch, scripted and frozen", f"{_HERE}.torchscript", "torch", modes=_INFERENCE),
    Peer(
        "pytorch-int8",
        "PyTorch's quantize_dynamic, 8-bit weights",
        f"{_HERE}.pytorch_int8",
        "torch",
        modes=_INFERENCE,
        approximate=True,
    ),
    Peer("onnxruntime", "ONNX Runtime's CPU provider", f"{_HERE}.onnx_runtime", "onnxruntime", modes=_INFERENCE),
    Peer(
        "keras",
        "Keras on TensorFlow, in a tf.function",
        f"{_HERE}.keras_tensorflow",
        "tensorflow",
        distribution="keras",
    ),
    Peer(
        "onednn",
        "oneDNN's RNN primitives, called directly",
        f"{_HERE}.onednn",
        "rnnbridge",
        distribution="onednn-cpu-gomp",
        variable="RNNBRIDGE_BENCH_ONEDNN",
    ),
)


def named(name: str) -> Peer:
    """A peer by name, ours too."""
    return next(peer for peer in (OURS, *PEERS) if peer.name == name)
