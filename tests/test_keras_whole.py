"""Arrays of other layers that the caller put in the place of a file's own are written with it, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rnnbridge as rb

MODEL = Path(__file__).parent.parent / "examples" / "gpu_model.h5"


@pytest.mark.parametrize("target", ["new.h5", "new.keras"])
def test_arrays_that_were_replaced_are_written(target: str, tmp_path: Path) -> None:
    bundle = rb.load(MODEL)
    name = next(name for name, array in bundle.tensors.items() if array.ndim == 2)
    bundle.tensors[name] = bundle.tensors[name] + 1
    rb.save(bundle, tmp_path / target)
    again = [
        array for array in rb.load(tmp_path / target).tensors.values() if array.shape == bundle.tensors[name].shape
    ]
    assert len(again) == 1
    assert np.array_equal(again[0], bundle.tensors[name])


def test_arrays_that_the_file_cannot_take_are_refused(tmp_path: Path) -> None:
    for change, said in (
        (lambda tensors, name: tensors.pop(name), "the bundle's tensors and those of its file differ in"),
        (lambda tensors, name: tensors.update(more=np.ones(3, "f")), "differ in 'more'"),
        (lambda tensors, name: tensors.update({name: np.ones(3, "f")}), r"is float32 \[3\]; it is float32"),
        (lambda tensors, name: tensors.update({name: tensors[name].astype("d")}), "is float64"),
    ):
        bundle = rb.load(MODEL)
        change(bundle.tensors, next(name for name, array in bundle.tensors.items() if array.ndim == 2))
        with pytest.raises(rb.ArgumentError, match=said):
            rb.save(bundle, tmp_path / "new.keras")
        assert not list(tmp_path.iterdir())
