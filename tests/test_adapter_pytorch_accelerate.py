"""`accelerate`: which modules of a model run on the engine then, which do not and why, and back."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import rnnbridge as rb
from tests.adapter_modules import adapter, torch

I, H, T, N = 5, 17, 7, 3


class Mine(torch.nn.LSTM):
    """Someone's own."""


class Model(torch.nn.Module):
    """Recurrent modules of every kind, some of which the engine cannot take."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.nn.ModuleList([torch.nn.LSTM(I, H, 2, bidirectional=True), torch.nn.GRU(2 * H, H)])
        self.relu = torch.nn.RNN(H, H, nonlinearity="relu")
        self.again = self.relu
        self.projected = torch.nn.LSTM(H, H, proj_size=3)
        self.mine = Mine(3, H)
        self.cell = torch.nn.GRUCell(H, H)
        self.narrow = torch.nn.GRU(H, H, dtype=torch.bfloat16)
        self.output = torch.nn.Linear(H, 2)

    def forward(self, x: Any) -> Any:
        for module in (*self.encoder, self.relu, self.projected, self.mine):
            x, _ = module(x)
        return self.output(self.cell(x[-1]))


@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")  # PyTorch's, of its own module, once
def test_every_module_is_swapped_or_the_reason_is_given() -> None:
    torch.manual_seed(0)
    model, x = Model(), torch.randn(T, N, I)
    parameters, wanted = dict(model.named_parameters()), model(x)
    seen: list[Any] = []
    model.relu.register_forward_hook(lambda module, *_: seen.append(type(module)))
    record = adapter.accelerate(model)
    assert record.swapped == ("encoder.0", "encoder.1", "relu")
    assert {name: word in record.left[name] for name, word in LEFT.items()} == dict.fromkeys(record.left, True)
    assert all(line in str(record) for line in ("3 recurrent", "left: mine, Mine is a class of its own"))
    assert [type(model.encoder[0]), type(model.encoder[1]), type(model.again)] == [
        adapter.LSTM,
        adapter.GRU,
        adapter.RNN,
    ]
    assert all(one is parameters[name] for name, one in model.named_parameters())
    got = model(x)
    assert seen == [adapter.RNN]
    # Seven steps through six layers: each output's rounding is a few eps.
    assert (got - wanted).abs().max() <= T * 6 * 16 * torch.finfo(torch.float32).eps * wanted.abs().max()

    again = adapter.accelerate(model)
    assert again.swapped == ()
    assert again.left["relu"] == "it runs on the engine already"
    record.undo()
    assert [type(model.encoder[0]), type(model.relu)] == [torch.nn.LSTM, torch.nn.RNN]
    assert torch.equal(model(x), wanted)
    record.undo()  # nothing is left to undo


LEFT = {
    "projected": "projection",
    "mine": "class of its own",
    "cell": "rnnbridge.adapters.pytorch.GRUCell",
    "narrow": "torch.bfloat16",
}


def test_a_model_may_be_the_module_itself_and_is_trained_on_after_undo() -> None:
    model = torch.nn.GRU(I, H)
    record = adapter.accelerate(model)
    assert record.swapped == ("",)
    assert "(the model)" in str(record)
    before = model.weight_hh_l0.detach().clone()
    model(torch.ones(T, N, I))[0].sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    record.undo()
    assert type(model) is torch.nn.GRU
    assert not torch.equal(model.weight_hh_l0, before)


@pytest.mark.parametrize("parametrised", ["before", "between", "never"])
def test_a_parametrised_module_is_swapped_and_swapped_back(parametrised: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.LSTM(I, H))
    if parametrised == "before":
        torch.nn.utils.parametrizations.weight_norm(model[0], "weight_hh_l0")
    copied, x = copy.deepcopy(model), torch.randn(T, N, I)
    record = adapter.accelerate(model)
    assert record.swapped == ("0",)
    if parametrised == "between":
        torch.nn.utils.parametrizations.weight_norm(model[0], "weight_hh_l0")
    assert isinstance(model[0], adapter.LSTM)
    assert not isinstance(copied[0], adapter.LSTM)  # a copy has the same class until one of them is swapped
    y, _ = model(x)
    record.undo()
    assert not isinstance(model[0], adapter.LSTM)
    torch.testing.assert_close(y, model(x)[0])
    assert torch.nn.utils.parametrize.is_parametrized(model[0]) == (parametrised != "never")


def test_what_is_no_model() -> None:
    with pytest.raises(rb.ArgumentError, match=r"given a dict; it takes a torch\.nn\.Module"):
        adapter.accelerate({})
