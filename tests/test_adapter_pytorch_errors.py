"""What the PyTorch adapter refuses, in PyTorch's words where PyTorch refuses it too; and weights that change."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import rnnbridge as rb
from rnnbridge.adapters.pytorch import errors
from rnnbridge.engine import Plan
from tests.adapter_modules import IN_PYTORCH, adapter, ours, problem_of, states_of, theirs, torch

I, H, T, N = 5, 17, 7, 3


def failure(function: Any) -> tuple[type, str]:
    with pytest.raises(Exception) as caught:
        function()
    return caught.type, str(caught.value)


BAD_ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "no hidden size": ((I,), {}),
    "hidden size zero": ((I, 0), {}),
    "input size of text": (("5", H), {}),
    "no layers": ((I, H, 0), {}),
    "dropout above one": ((I, H, 2), {"dropout": 1.5}),
    "bias no bool": ((I, H), {"bias": 3}),
    "batch_first no bool": ((I, H), {"batch_first": "yes"}),
    "an unknown argument": ((I, H), {"size": 2}),
    "a projection as wide as the state": ((I, H), {"proj_size": H}),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_constructors_fail_as_pytorchs_do(kind: str, case: str) -> None:
    args, kwargs = BAD_ARGUMENTS[case]
    wanted = failure(lambda: getattr(torch.nn, kind)(*args, **kwargs))
    assert failure(lambda: getattr(adapter, kind)(*args, **kwargs)) == wanted


def bad_inputs(cell: str) -> dict[str, tuple[Any, Any]]:
    state = torch.zeros(1, N, H)

    def pair(h: Any, c: Any = None) -> Any:
        return (h, h if c is None else c) if cell == "lstm" else h

    cases: dict[str, tuple[Any, Any]] = {
        "another feature size": (torch.zeros(T, N, I + 1), None),
        "one axis": (torch.zeros(I), None),
        "four axes": (torch.zeros(1, T, N, I), None),
        "another dtype": (torch.zeros(T, N, I, dtype=torch.float64), None),
        "whole numbers": (torch.zeros(T, N, I, dtype=torch.int64), None),
        "another batch in the state": (torch.zeros(T, N, I), pair(torch.zeros(1, N + 1, H))),
        "another size of the state": (torch.zeros(T, N, I), pair(torch.zeros(1, N, H + 1))),
        "too many layers in the state": (torch.zeros(T, N, I), pair(torch.zeros(2, N, H))),
        "a state without a batch": (torch.zeros(T, N, I), pair(torch.zeros(1, H))),
        "a state with a batch": (torch.zeros(T, I), pair(state)),
        "no steps": (torch.zeros(0, N, I), None),
    }
    if cell == "lstm":
        cases["another size of c"] = (torch.zeros(T, N, I), (state, torch.zeros(1, N, H + 1)))
        cases["three states"] = (torch.zeros(T, N, I), (state, state, state))
    return cases


@pytest.mark.parametrize("case", bad_inputs("lstm"))
@pytest.mark.parametrize("cell", IN_PYTORCH)
def test_calls_fail_as_pytorchs_do(cell: str, case: str) -> None:
    if case not in bad_inputs(cell):
        case = "another size of the state"  # there is no c
    x, hx = bad_inputs(cell)[case]
    problem = problem_of(cell)
    kind, text = failure(lambda: theirs(problem)(x, hx))
    mine = failure(lambda: ours(problem)(x, hx))
    assert issubclass(mine[0], kind)
    # PyTorch's three modules word this one in two ways.
    assert mine[1].replace(" instead", "") == text.replace(" tensor instead", "").replace(" instead", "")


@pytest.mark.parametrize("case", ["dtype", "shape", "axes", "batch"])
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_fail_with_pytorchs_errors(kind: str, case: str) -> None:
    state = torch.zeros(N + (case == "batch"), H)
    hx = (state, state) if kind == "LSTMCell" else state
    bad = {"shape": torch.zeros(N, I + 1), "axes": torch.zeros(1, 1, N, I), "dtype": torch.zeros(N, I).double()}
    x = bad.get(case, torch.zeros(N, I))
    wanted = failure(lambda: getattr(torch.nn, kind)(I, H)(x, hx))
    assert issubclass(failure(lambda: getattr(adapter, kind)(I, H)(x, hx))[0], wanted[0])


def test_a_state_of_another_dtype_or_device_is_refused() -> None:
    module, x = ours(problem_of("gru_after")), torch.zeros(T, N, I)
    with pytest.raises(RuntimeError, match=r"not the same dtype.*float32 and hidden tensor with torch.float64"):
        module(x, torch.zeros(1, N, H, dtype=torch.float64))
    with pytest.raises(
        RuntimeError, match="not at the same device, found input tensor at cpu and hidden tensor at meta"
    ):
        module(x, torch.zeros(1, N, H, device="meta"))
    with pytest.raises(
        RuntimeError, match="not at the same device, found input tensor at meta and parameter tensor at"
    ):
        module(x.to("meta"))


def test_a_module_on_a_gpu_is_refused_with_the_way_back() -> None:
    # There is no GPU here: what is looked at is where tensors say that they are.
    cuda = SimpleNamespace(device=torch.device("cuda", 0), dtype=torch.float32)
    with pytest.raises(adapter.UnsupportedError, match=r"runs on cuda:0, and rnnbridge's GRU does not\. .*undo\(\)"):
        errors.check_tensors(adapter.GRU(I, H), cuda, (), [cuda])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_dtypes_are_refused(dtype: Any) -> None:
    with pytest.raises(adapter.UnsupportedError, match=f"{dtype}, ours is float32 or float64.*undo"):
        ours(problem_of("lstm")).to(dtype)(torch.zeros(T, N, I, dtype=dtype))


def test_a_shape_alone_runs_on_the_meta_device() -> None:
    y, h = ours(problem_of("gru_after")).to("meta")(torch.zeros(T, N, I, device="meta"))
    assert (y.shape, h.shape) == ((T, N, H), (1, N, H))


@pytest.mark.parametrize(
    ("lengths", "match"),
    [
        ([1, 2], r"lengths is torch.int64 \[2\]; it is one whole number per sequence, \[3\]"),
        ([1.0, 2.0, 3.0], "lengths is torch.float32"),
        ([1, 2, 8], "lengths"),
        ([1, -2, 3], "lengths"),
        ("all", "lengths is 'all'; it is one whole number per sequence"),
    ],
)
def test_lengths_that_do_not_fit(lengths: Any, match: str) -> None:
    with pytest.raises(rb.ArgumentError, match=match):
        ours(problem_of("lstm"))(torch.zeros(T, N, I), lengths=lengths)


def test_lengths_beside_packed_rows() -> None:
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.zeros(T, N, I), [3, 2, 1])
    with pytest.raises(rb.ArgumentError, match="a PackedSequence, which has its own"):
        ours(problem_of("lstm"))(packed, lengths=[3, 2, 1])


@pytest.mark.parametrize("kind", ["GRU", "GRUCell"])
def test_a_formula_that_is_none(kind: str) -> None:
    with pytest.raises(rb.SpecError, match=r'reset is \'never\'; it is "after".*"before"'):
        getattr(adapter, kind)(I, H, reset="never")
    assert "reset='before'" in repr(getattr(adapter, kind)(I, H, reset="before"))


@pytest.mark.parametrize("cell", IN_PYTORCH)
def test_a_weight_changed_before_backward_is_seen(cell: str) -> None:
    module = ours(problem_of(cell))
    loss = module(torch.ones(T, N, I))[0].sum()
    with torch.no_grad():
        module.weight_hh_l0.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("how", ["written", "replaced", "rows exchanged"])
@pytest.mark.parametrize("cell", IN_PYTORCH)
def test_a_weight_changed_where_pytorch_does_not_see_it_is_seen(cell: str, how: str) -> None:
    module = ours(problem_of(cell))
    loss = module(torch.ones(T, N, I))[0].sum()
    loss.backward(retain_graph=True)
    weight = module.weight_hh_l0
    if how == "written":
        weight.data.mul_(2)
    else:
        weight.data = weight.data * 2 if how == "replaced" else weight.data.flip(0)
    with pytest.raises(RuntimeError, match=r"changed since forward: .* run the forward again"):
        loss.backward()


def test_the_same_weights_packed_anew_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = ours(problem_of("gru_after")), torch.ones(T, N, I)
    loss = module(x)[0].sum()
    monkeypatch.setattr("rnnbridge.adapters.pytorch.packing._packings", {})
    module.weight_hh_l0.data = module.weight_hh_l0.data.clone()
    loss.backward()


def test_second_derivatives_are_refused() -> None:
    x = torch.ones(T, N, I, requires_grad=True)
    (dx,) = torch.autograd.grad(ours(problem_of("lstm"))(x)[0].sum(), x, create_graph=True)
    with pytest.raises(adapter.UnsupportedError, match="no second derivatives"):
        dx.sum().backward()


TRANSFORMS = {
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "grad in vmap": lambda f, x: torch.func.vmap(torch.func.grad(lambda x: f(x).sum()))(torch.stack([x, x])),
    "vmap in grad": lambda f, x: torch.func.grad(lambda x: torch.func.vmap(f)(torch.stack([x, x])).sum())(x),
    "vjp": lambda f, x: torch.func.vjp(f, x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # PyTorch's own use of it
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_are_refused(transform: str) -> None:
    module = ours(problem_of("gru_after"))
    with pytest.raises(adapter.UnsupportedError, match=r"torch\.func .* record\.undo\(\) after accelerate"):
        TRANSFORMS[transform](lambda x: module(x)[0], torch.ones(T, N, I))


@pytest.mark.filterwarnings("ignore:.torch.jit.trace", "ignore::torch.jit.TracerWarning")
def test_tracing_is_refused() -> None:
    with pytest.raises(adapter.UnsupportedError, match=r"torch\.jit\.trace records PyTorch's own"):
        torch.jit.trace(ours(problem_of("lstm")), torch.ones(T, N, I))


@pytest.fixture
def _notices_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_given", set())


@pytest.mark.usefixtures("_notices_anew")
def test_autocast_gives_float32_and_one_notice() -> None:
    module, x = ours(problem_of("lstm")), torch.randn(T, N, I)
    wanted = module(x.bfloat16().float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.warns(UserWarning, match="float32 under autocast") as notices:
            y, final = module(x.bfloat16())
        assert notices[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module(x)
    assert torch.equal(y, wanted[0])
    assert all(torch.equal(one, two) for one, two in zip(final, wanted[1], strict=True))
    y.sum().backward()
    assert module.weight_ih_l0.grad.dtype == torch.float32


@pytest.mark.usefixtures("_notices_anew")
def test_a_projection_runs_as_pytorchs_with_one_notice() -> None:
    torch.manual_seed(0)
    module = adapter.LSTM(I, H, proj_size=2)
    other = torch.nn.LSTM(I, H, proj_size=2)
    other.load_state_dict(module.state_dict())
    x = torch.randn(T, N, I)
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        y, final = module(x)
        module(x)
    assert ["runs no projection yet" in str(one.message) for one in notices].count(True) == 1  # PyTorch has its own too
    assert torch.equal(y, other(x)[0])
    assert [part.shape for part in states_of(final)] == [(1, N, 2), (1, N, H)]
    with pytest.raises(adapter.UnsupportedError, match="lengths= runs on the engine"):
        module(x, lengths=[1, 2, 3])


def test_torchscript_and_quantisation_are_refused() -> None:
    model = torch.nn.Sequential(ours(problem_of("lstm")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # both are; people have them in their scripts
        with pytest.raises(adapter.UnsupportedError, match=r"torch.jit.script .*undo\(\)"):
            torch.jit.script(model)
        with pytest.raises(adapter.UnsupportedError, match=r"quantize_dynamic.*undo\(\)"):
            torch.ao.quantization.quantize_dynamic(model, {torch.nn.LSTM})


def packs_counted(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    packs: list[None] = []
    pack = Plan.pack

    def spy(self: Plan, *args: Any, **kwargs: Any) -> Any:
        packs.append(None)
        return pack(self, *args, **kwargs)

    monkeypatch.setattr(Plan, "pack", spy)
    return packs


def test_weights_are_packed_when_they_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    packs = packs_counted(monkeypatch)
    module, x = ours(problem_of("lstm", num_layers=2)), torch.ones(T, N, I)
    with torch.no_grad():
        module(x)
        module(x[:3])
        assert len(packs) == 1, "another length takes what is packed"
        module.weight_hh_l1.add_(0.1)
        changed = module(x)[0]
        assert len(packs) == 2
    module(x)[0].sum().backward()
    assert len(packs) == 3, "a training call packs more, once for forward and backward"
    with torch.no_grad():
        assert torch.equal(module(x)[0], changed)
    assert len(packs) == 3
    torch.optim.SGD(module.parameters(), lr=0.1).step()
    with torch.no_grad():
        assert not torch.equal(module(x)[0], changed)
    assert len(packs) == 4


@pytest.mark.parametrize("change", ["data", "replaced", "loaded", "moved"])
def test_changes_that_have_no_version_are_seen(change: str) -> None:
    module, x = ours(problem_of("lstm")), torch.ones(T, N, I)
    with torch.no_grad():
        before = module(x)[0]
        if change == "data":
            module.weight_hh_l0.data.mul_(2)
        elif change == "replaced":
            module.weight_hh_l0 = torch.nn.Parameter(module.weight_hh_l0 * 2)
        elif change == "loaded":
            module.load_state_dict({name: 2 * one for name, one in module.state_dict().items()})
        else:
            module.double()
        after = module(x.to(module.weight_hh_l0.dtype))[0]
    assert not torch.equal(after.to(before.dtype), before)


def test_modules_that_share_weights_have_a_packing_each() -> None:
    after, x = ours(problem_of("gru_after")), torch.ones(T, N, I)
    before = adapter.GRU(I, H, reset="before")
    alone = adapter.GRU(I, H, reset="before")
    alone.load_state_dict(after.state_dict())
    for name, one in after.named_parameters():
        setattr(before, name, one)
    with torch.no_grad():
        after(x)
        assert torch.equal(before(x)[0], alone(x)[0])


def test_weights_made_in_inference_mode_run() -> None:
    problem = problem_of("lstm")
    with torch.inference_mode():
        module, x = ours(problem), torch.ones(T, N, I)
        before = module(x)[0]
        module.weight_hh_l0.mul_(2)
        assert not torch.equal(module(x)[0], before)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # PyTorch's own use of it
def test_forward_mode_derivatives_are_refused() -> None:
    net, x = adapter.LSTM(5, 3), torch.randn(7, 2, 5)
    with pytest.raises(adapter.UnsupportedError, match=r"torch\.func|forward-mode derivatives"):
        torch.func.jvp(lambda one: net(one)[0], (x,), (torch.ones_like(x),))
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    with torch.autograd.forward_ad.dual_level():
        net(x)
        with pytest.raises(adapter.UnsupportedError, match=r"torch\.func|forward-mode derivatives"):
            net(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))
