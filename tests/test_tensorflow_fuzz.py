"""Damaged files of TensorFlow, of every kind: a FormatError that names the file, or other numbers, and no more."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from rnnbridge.files.sorted_table import read_table, table_bytes
from tests.fuzzing import Copy, cut, damaged

GOLDEN = Path(__file__).parent / "golden"
LSTM, OBJECTS, OLDER = "tensorflow-1.15.5", "tf_keras-2.21.0-objects", "tf.keras-1.15.5-objects"
# The folder, the file that is damaged and the one that is read, and how many of 70 are refused at the least: graphs
# have no checksums, and most of what is in them is not looked at.
FILES = {
    "index": (LSTM, "lstm.ckpt.index", "lstm.ckpt.index", "tensorflow", 60),
    "shard": (LSTM, "lstm.ckpt.data-00000-of-00001", "lstm.ckpt.index", "tensorflow", 60),
    "graph beside": (LSTM, "lstm.ckpt.meta", "lstm.ckpt.index", "tensorflow", 10),
    "slices": (LSTM, "parts.ckpt.index", "parts.ckpt.index", "tensorflow", 60),
    "frozen": (LSTM, "frozen.pb", "frozen.pb", "tensorflow-graph", 10),
    "saved": (f"{LSTM}/saved", "saved_model.pb", "saved_model.pb", "tensorflow", 10),
    "variables": (f"{LSTM}/saved", "variables/variables.index", "saved_model.pb", "tensorflow", 60),
    "objects": (OBJECTS, "mixed.ckpt.index", "mixed.ckpt.index", "keras-checkpoint", 60),
    "object shard": (OBJECTS, "mixed.ckpt.data-00000-of-00001", "mixed.ckpt.index", "keras-checkpoint", 60),
    "configs": (f"{OBJECTS}/mixed.saved", "keras_metadata.pb", "saved_model.pb", "keras-checkpoint", 10),
    "older configs": (f"{OLDER}/two_ways.saved", "saved_model.pb", "saved_model.pb", "keras-checkpoint", 1),
}
each_file = pytest.mark.parametrize("case", FILES)
SETTINGS = {"activation": "relu"}


def copy_of(case: str, folder: Path) -> Copy:
    source, broken, read, format_name, _ = FILES[case]
    settings = SETTINGS if broken == "parts.ckpt.index" else None
    skipped = shutil.ignore_patterns("*.saved", "saved", "*.npz")
    return Copy(GOLDEN / source, broken, read, format_name, folder, settings, skipped)


@each_file
def test_a_whole_file_is_read(case: str, tmp_path: Path) -> None:
    copy = copy_of(case, tmp_path)
    assert not copy.is_refused(copy.content)


@each_file
def test_a_truncated_file_is_refused(case: str, tmp_path: Path) -> None:
    """But for a message that ends between two of its fields."""
    copy = copy_of(case, tmp_path)
    ends = list(cut(copy.content))
    refused = sum(copy.is_refused(content) for content in ends)
    assert refused >= len(ends) * (0.8 if copy.broken.suffix in (".pb", ".meta") else 1)


@each_file
def test_a_fuzzed_file_is_refused_or_other_numbers(case: str, tmp_path: Path) -> None:
    copy = copy_of(case, tmp_path)
    assert sum(copy.is_refused(content) for content in damaged(copy.content, 70)) >= FILES[case][-1]


@pytest.mark.parametrize("case", ["index", "slices", "objects"])
def test_fuzzed_entries_with_their_checksums(case: str, tmp_path: Path) -> None:
    """What lies behind the checksums: entries of an index damaged, and the whole sealed again."""
    copy = copy_of(case, tmp_path)
    table, rng = read_table(copy.content, "here"), np.random.default_rng(3)
    keys = sorted(table)
    refused = 0
    for number in range(200):
        key = keys[int(rng.integers(len(keys)))]
        value = next(damaged(table[key], 1, seed=number)) if table[key] else b"\x08\x01"
        changed = {**table, key: value}
        if number % 5 == 0:  # a key is damaged too
            changed[next(damaged(key or b"x", 1, seed=number))] = changed.pop(key)
        refused += copy.is_refused(table_bytes(changed))
    assert refused > 60
