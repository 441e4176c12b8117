"""Opening and publishing files: what is no file, what is in the way, and what appears whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import rnnbridge as rb
from rnnbridge.catalogue import catalogue
from tests.samples import spec_of, weights_of

WEIGHTS = weights_of(spec_of("gru_after"))


def alone_in(folder: Path, *names: str) -> bool:
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_device_or_a_pipe_is_never_replaced(tmp_path: Path, overwrite: bool) -> None:
    os.mkfifo(tmp_path / "a.npz")
    with pytest.raises(rb.FileAccessError, match="no regular file"):
        rb.save(WEIGHTS, tmp_path / "a.npz", overwrite=overwrite)
    assert stat.S_ISFIFO((tmp_path / "a.npz").stat().st_mode)
    assert alone_in(tmp_path, "a.npz")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.npz")
    with pytest.raises(rb.FormatError, match="no regular file"):
        rb.load(tmp_path / "a.npz")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_to_nothing_is_left_alone(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "a.npz").symlink_to(tmp_path / "nowhere")
    with pytest.raises(rb.FileAccessError, match="link to nothing"):
        rb.save(WEIGHTS, tmp_path / "a.npz", overwrite=overwrite)
    assert (tmp_path / "a.npz").is_symlink()


def test_an_existing_target_is_kept_unless_replacing_is_asked_for(tmp_path: Path) -> None:
    rb.save(WEIGHTS, tmp_path / "a.npz")
    before = (tmp_path / "a.npz").read_bytes()
    with pytest.raises(FileExistsError, match="--force"):
        rb.save(weights_of(spec_of("lstm")), tmp_path / "a.npz")
    assert (tmp_path / "a.npz").read_bytes() == before
    rb.save(weights_of(spec_of("lstm")), tmp_path / "a.npz", overwrite=True)
    assert rb.load(tmp_path / "a.npz")["rnn"].spec.cell == "lstm"
    assert alone_in(tmp_path, "a.npz")


@pytest.mark.parametrize("name", ["x" * 300 + ".npz", "missing/a.npz"])
def test_a_name_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path, name: str) -> None:
    with pytest.raises(rb.FileAccessError, match="cannot write"):
        rb.save(WEIGHTS, tmp_path / name)
    assert alone_in(tmp_path)


def test_a_folder_that_may_only_be_read(tmp_path: Path) -> None:
    """In a process without root's rights, which no permission binds."""
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    script = (
        "import os, sys, rnnbridge as rb\n"
        "from tests.test_bundle import WEIGHTS\n"
        "rb.formats()\n"  # imports every converter, while the standard library can be read
        "if os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: rb.save(WEIGHTS, sys.argv[1])\n"
        "except rb.FileAccessError as error: print(error)\n"
    )
    tmp_path.chmod(0o755)
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", script, str(closed / "a.npz")], capture_output=True, text=True, cwd=root, check=False
    )
    assert "cannot write" in done.stdout, done.stderr
    assert alone_in(closed)


@pytest.mark.parametrize("given", [None, 3, object()])
def test_what_is_no_path_is_refused(given: object) -> None:
    for call in (rb.load, lambda path: rb.save(WEIGHTS, path)):
        with pytest.raises(rb.ArgumentError, match="no path"):
            call(given)


@pytest.mark.parametrize("given", ["", "a\0b.npz"])
def test_what_no_file_can_be_called_is_refused(given: str) -> None:
    with pytest.raises(rb.ArgumentError, match="no name that a file can have"):
        rb.load(given)


def test_a_missing_file_is_missing_whatever_the_format(tmp_path: Path) -> None:
    for chosen in (None, *catalogue().formats):
        with pytest.raises(rb.FileAccessError, match="No such file"):
            rb.load(tmp_path / "a.npz", format=chosen)


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "a.h5").touch()
    with pytest.raises(rb.FormatError, match="should be keras, but it is empty"):
        rb.load(tmp_path / "a.h5")


@pytest.mark.parametrize("what", ["x", {"a": WEIGHTS}, None])
def test_only_weights_are_saved(what: object, tmp_path: Path) -> None:
    with pytest.raises(rb.ArgumentError, match="takes RNNWeights, a Bundle or a layer"):
        rb.save(what, tmp_path / "a.npz")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors"])
def test_a_layer_of_ours_is_saved_as_its_weights(name: str, tmp_path: Path) -> None:
    net = rb.GRU(5, 3, reset="after", seed=1)
    net.weights["bias_hh_l0"][:] = 0.5
    rb.save(net, tmp_path / name)
    assert rb.load(tmp_path / name)["rnn"] == net.to_weights() == rb.from_framework(net)


def test_a_class_of_ours_is_no_layer(tmp_path: Path) -> None:
    with pytest.raises(rb.ArgumentError, match="is a class; give an object of it"):
        rb.from_framework(rb.LSTM)
    with pytest.raises(rb.ArgumentError, match="cannot be saved"):
        rb.save(rb.LSTM, tmp_path / "a.npz")  # type: ignore[arg-type]


def test_settings_may_be_plain_values(tmp_path: Path) -> None:
    rb.save(WEIGHTS, tmp_path / "a.npz")
    assert rb.load(tmp_path / "a.npz", settings={"self_check": False})["rnn"] == WEIGHTS  # type: ignore[dict-item]
    with pytest.raises(rb.ArgumentError, match="nothing here takes the setting 'selfcheck'"):
        rb.load(tmp_path / "a.npz", settings={"selfcheck": "false"})


def test_a_bundle_prints_in_a_few_lines(tmp_path: Path) -> None:
    rb.save(WEIGHTS, tmp_path / "a.npz")
    assert len(repr(rb.load(tmp_path / "a.npz"))) < 400
