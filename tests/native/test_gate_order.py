"""The order of the gates is written once: another one in gates.h changes what is packed, and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from rnnbridge._native import build_info
from rnnbridge.spec import GATES

NATIVE = Path(__file__).parents[2] / "native"
CXX = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
# Packs weights whose every number is their gate's letter, for the order that gates.h gives, and prints all that is
# packed: letter, or "." for 0. H = 17 leaves a part of a panel free.
PROGRAM = """
#include <cstdio>
#include <vector>
#include "gates.h"
#include "pack.h"

static const rnb::KernelSet none{};

static void print(rnb_cell cell, rnb_reset reset) {
  rnb_spec given{};
  given.cell = cell, given.reset = reset, given.dtype = RNB_DTYPE_FLOAT32, given.bias = RNB_BIAS_DOUBLE;
  given.direction = RNB_DIRECTION_FORWARD, given.merge = RNB_MERGE_CONCAT, given.num_layers = 1;
  given.output_order = RNB_OUTPUT_ORDER_INPUT, given.input_size = 5, given.hidden_size = 17;
  for (int i = 0; i < (cell == RNB_CELL_LSTM ? 3 : cell == RNB_CELL_GRU ? 2 : 1); ++i)
    given.activations[i].code = RNB_ACTIVATION_TANH;
  const rnb_plan plan(rnb::Spec(given), 7, 3, 0, none);
  std::vector<float> weight_ih, weight_hh, bias_ih, bias_hh;
  for (char gate : rnb::gates_of(cell)) {
    weight_ih.insert(weight_ih.end(), 17 * 5, gate);
    weight_hh.insert(weight_hh.end(), 17 * 17, gate);
    bias_ih.insert(bias_ih.end(), 17, gate);
    bias_hh.insert(bias_hh.end(), 17, 0);
  }
  const void* arrays[] = {weight_ih.data(), weight_hh.data(), bias_ih.data(), bias_hh.data()};
  std::vector<float> packed(plan.packed_nbytes / sizeof(float));
  rnb::pack(plan, arrays, packed.data());
  for (float number : packed) std::putchar(number == 0 ? '.' : int(number));
  std::putchar('\\n');
}

int main() {
  print(RNB_CELL_LSTM, RNB_RESET_NONE);
  print(RNB_CELL_GRU, RNB_RESET_AFTER);
  print(RNB_CELL_GRU, RNB_RESET_BEFORE);
}
"""


def packed_with(folder: Path, **orders: str) -> list[str]:
    """What the kernels get to see, a line per cell, from sources whose gates.h has other orders."""
    shutil.copytree(NATIVE, folder)
    header = folder / "src" / "gates.h"
    text = header.read_text()
    for cell, order in orders.items():
        assert text.count(f'"{GATES[cell]}"') == 1
        text = text.replace(f'"{GATES[cell]}"', f'"{order}"')
    header.write_text(text)
    (folder / "src" / "print.cpp").write_text(PROGRAM)
    sources = [str(folder / "src" / f"{name}.cpp") for name in ("print", "pack", "plan", "spec", "training", "tape")]
    assert CXX
    subprocess.run([CXX, "-std=c++17", *sources, "-o", str(folder / "print")], check=True)
    return subprocess.run([folder / "print"], check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.skipif(CXX is None, reason="there is no C++ compiler")
def test_another_order_reaches_the_kernels_as_the_same_panels(tmp_path: Path) -> None:
    usual = packed_with(tmp_path / "usual")
    assert all(set(line) == {*GATES[cell], "."} for cell, line in zip(("lstm", "gru", "gru"), usual, strict=True))
    assert packed_with(tmp_path / "other", lstm="ogif", gru="nzr") == usual


def test_the_library_says_the_order_that_this_package_has() -> None:
    assert build_info()["cells"] == GATES
    assert json.dumps(build_info()["cells"]) == json.dumps(GATES), "the cells come in another order"
