"""Damaged files of Paddle, of every kind: a FormatError that names the file, or other numbers, and no other error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzzing import Copy, cut, damaged

GOLDEN = Path(__file__).parent / "golden" / "paddle-3.3.1"
# The file that is damaged and the one that is read, where it is another.
FILES = {
    "state_dict": ("model.pdparams", "model.pdparams", "paddle"),
    "protocol 2": ("model.protocol2.pdparams", "model.protocol2.pdparams", "paddle"),
    "nested": ("model.nested.pdparams", "model.nested.pdparams", "paddle"),
    "tensors": ("inference.pdiparams", "inference.pdiparams", "paddle-inference"),
    "program": ("inference.json", "inference.pdiparams", "paddle-inference"),
    "older program": ("older.pdmodel", "older.pdiparams", "paddle-inference"),
    "operator": ("fluid/gru_0.w_0", "fluid/gru_0.w_0", "paddle-fluid"),
    "fc": ("fluid/fc_3.b_0", "fluid/gru_0.w_0", "paddle-fluid"),
}
FC = {"lstm_0.fc": "fc_3", "lstm_1.fc": "fc_4", "gru_unit_0.fc": "fc_5"}
each_file = pytest.mark.parametrize("case", FILES)


def copy_of(case: str, folder: Path) -> Copy:
    broken, read, format_name = FILES[case]
    settings = FC if format_name == "paddle-fluid" else None
    return Copy((GOLDEN / broken).parent, Path(broken).name, Path(read).name, format_name, folder, settings)


@each_file
def test_a_whole_file_is_read(case: str, tmp_path: Path) -> None:
    copy = copy_of(case, tmp_path)
    assert not copy.is_refused(copy.content)


@each_file
def test_a_truncated_file_is_refused(case: str, tmp_path: Path) -> None:
    copy = copy_of(case, tmp_path)
    assert all(copy.is_refused(content) for content in cut(copy.content))


@each_file
def test_a_fuzzed_file_is_refused_or_other_numbers(case: str, tmp_path: Path) -> None:
    copy = copy_of(case, tmp_path)
    refused = sum(copy.is_refused(content) for content in damaged(copy.content, 70))
    assert refused > 20
