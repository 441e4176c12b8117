"""Train a PyTorch model with rnnbridge's layers on several processes, or machines, with DistributedDataParallel.

    python examples/distributed_pytorch.py                                    # one process
    torchrun --nproc-per-node 2 examples/distributed_pytorch.py               # half of each batch each

A model learns to say where in a sequence its largest value was. Every process takes its part of each batch, gradients
are averaged, and each has a dropout of its own. Ends with the losses and the sequences per second.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from rnnbridge.adapters.pytorch import accelerate

T, N, I, H = 29, 64, 3, 64


class Finder(torch.nn.Module):
    """Scores of every step, from a sequence [T, N, I]."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.rnn = torch.nn.LSTM(I, H, num_layers=2, dropout=dropout, bidirectional=True)
        self.score = torch.nn.Linear(2 * H, 1)

    def forward(self, x: Any) -> Any:
        return self.score(self.rnn(x)[0]).squeeze(-1)


def batch_of(step: int, dtype: Any) -> tuple[Any, Any]:
    """The step's whole batch, the same in every process."""
    x = torch.randn(T, N, I, generator=torch.Generator().manual_seed(step), dtype=dtype)
    return x, x[..., 0].argmax(dim=0)


def drops_apart(model: Any, dtype: Any) -> bool:
    """Whether the processes drop other features of the same input."""
    mine = model(batch_of(0, dtype)[0]).detach()
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    return all(not torch.equal(mine, other) for rank, other in enumerate(every) if rank != dist.get_rank())


def train(given: argparse.Namespace) -> dict[str, Any]:
    rank, world = dist.get_rank(), dist.get_world_size()
    dtype = getattr(torch, given.dtype)
    torch.manual_seed(given.seed)  # the same weights everywhere ...
    model = Finder(given.dropout).to(dtype)
    accelerate(model)
    parallel = DistributedDataParallel(model)
    torch.manual_seed(given.seed + 1 + rank)  # ... and a dropout of each process's own
    apart = drops_apart(model, dtype)
    optimiser = torch.optim.Adam(parallel.parameters(), lr=5e-3)
    mine, losses, start = slice(rank * N // world, (rank + 1) * N // world), [], 0.0
    for step in range(given.steps):
        if step == 1:  # what the first step prepares is not counted
            start = time.perf_counter()
        x, aim = batch_of(step, dtype)
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(parallel(x[:, mine]).T, aim[mine])
        loss.backward()
        optimiser.step()
        mean = loss.detach()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
    rate = (given.steps - 1) * N / (time.perf_counter() - start)
    return {"losses": losses, "drops_apart": apart, "sequences_per_s": rate, "world": world}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where the losses are written")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if "RANK" in os.environ:  # torchrun says who we are
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    result = train(given)
    if dist.get_rank() == 0:
        print(f"{result['world']} process(es): loss {result['losses'][0]:.4f} -> {result['losses'][-1]:.4f}")
        print(f"{result['sequences_per_s']:.0f} sequences/s")
        if given.json:
            given.json.write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
