"""The command as people type it: what goes to which stream, and with which exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from rnnbridge.bundle import save
from rnnbridge.catalogue import catalogue
from rnnbridge.cli import main
from rnnbridge.cli.info import EXTRAS
from tests.samples import spec_of, weights_of
from tests.standin import standins, write_file

ROOT = Path(__file__).parent.parent
__all__ = ["standins"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def source(tmp_path: Path, standins: None) -> Path:
    """Two layers and an array that is none."""
    layers = {"lower": weights_of(spec_of("lstm", bias="single")), "upper": weights_of(spec_of("gru_after"))}
    path = tmp_path / "source.plain"
    write_file(path, {name: (one.spec, one.arrays) for name, one in layers.items()}, {"dense": np.ones((2, 3))})
    return path


def run(capture: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(one) for one in arguments])
    out, err = capture.readouterr()
    return code, out, err


def test_convert_prints_one_table_and_exits_0(source: Path, tmp_path: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "convert", source, tmp_path / "b.plain", "--layer", "lower")
    assert code == 0
    assert all(f"error {name}" in out for name in "yhc")
    assert re.search(r"allowed +\d\.\de-\d\d", out)
    assert "the same numbers: largest error" in out
    assert err == "not converted: layer upper: not asked for\n"


def test_convert_as_json(source: Path, tmp_path: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, "convert", source, tmp_path / "b.plain", "--json", "--set", "order=ifgo")
    assert code == 0
    assert json.loads(out)["ok"] is True


def test_a_difference_exits_1_with_the_table_and_a_reason(source: Path, tmp_path: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "convert", source, tmp_path / "b.wrong")
    assert code == 1
    assert "DIFFERS" in out
    assert err.startswith("rnnbridge: ")
    assert "was not written, DIFFERENT" in err
    assert not (tmp_path / "b.wrong").exists()
    assert run(capsys, "convert", source, tmp_path / "b.wrong", "--no-verify")[0] == 0
    code, out, err = run(capsys, "verify", source, tmp_path / "b.wrong", "--json")
    assert code == 1
    assert json.loads(out)["ok"] is False
    assert err.startswith("DIFFERENT: ")


def test_verify_exits_0_only_if_the_numbers_are_the_same(source: Path, tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "convert", source, tmp_path / "b.plain")
    code, out, err = run(
        capsys, "verify", source, tmp_path / "b.plain", "--map", "lower=lower", "--set-a", "order=ifgo"
    )
    assert (code, err) == (0, "")
    assert "not compared: upper of the source" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("convert", "SOURCE", "TMP/source.plain", "--force"), "is the source itself"),
        (("convert", "SOURCE", "TMP/none/b.plain"), "none/b.plain: No such file or directory"),
        (("convert", "SOURCE", "TMP/b.full"), "No space left"),
        (("convert", "SOURCE", f"TMP/{'x' * 300}.plain"), "File name too long"),
        (("convert", "SOURCE", "TMP/b.xyz"), "known endings"),
        (("convert", "SOURCE", "TMP/b", "--to", "nothing"), "unknown format 'nothing'"),
        (("convert", "SOURCE", "TMP/b.plain", "--set", "ordre=x"), "nothing here takes the setting 'ordre'"),
        (("convert", "SOURCE", "TMP/b.plain", "--layer", "x"), "no recurrent layer 'x'"),
        (("inspect", "TMP/none.plain"), "cannot read"),
        (("inspect", "TMP"), "is a folder"),
        (("verify", "SOURCE", "TMP/none.plain"), "cannot read"),
        (("conventions", "--framework", "none"), "there are rows for plain"),
    ],
    ids=" ".join,
)
def test_a_refusal_is_one_message_and_leaves_nothing(
    source: Path, tmp_path: Path, capsys: Capture, arguments: tuple[str, ...], reason: str
) -> None:
    given = [one.replace("SOURCE", str(source)).replace("TMP", str(tmp_path)) for one in arguments]
    code, out, err = run(capsys, *given)
    assert (code, out) == (1, "")
    assert err.startswith("rnnbridge: ")
    assert reason in err
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["source.plain"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("transmogrify",),
        ("inspect",),
        ("convert", "a"),
        ("inspect", "a", "--set", "novalue"),
        ("formats", "--colour"),
        ("convert", "a", "b", "--batch-first", "--time-first"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_2(capsys: Capture, arguments: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "Usage: rnnbridge" in err


def test_an_error_of_our_own_exits_3(source: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str, settings: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("rnnbridge.inspection.inspect", broken)
    code, out, err = run(capsys, "inspect", source)
    assert (code, out) == (3, "")
    assert "ZeroDivisionError: oops" in err
    assert "please report it" in err


@pytest.mark.parametrize("command", ["inspect", "conventions", "formats", "info"])
def test_every_command_speaks_json(source: Path, capsys: Capture, command: str) -> None:
    given = [command, *([str(source)] if command == "inspect" else [])]
    code, out, err = run(capsys, *given, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)
    code, out, err = run(capsys, *given)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 120


def test_help_exits_0_and_names_every_command(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert all(name in out for name in ("inspect", "convert", "verify", "conventions", "formats", "info"))


def test_info_looks_for_every_extra(capsys: Capture) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[project.optional-dependencies]")[2].partition("# The one place")[0]
    wanted = set(re.findall(r'"([a-z][a-z-]+)[>=]', table))
    assert {"torch", "onnx"} <= wanted
    assert wanted | {"tf-keras"} == set(EXTRAS)
    peers = (ROOT / "requirements" / "peers.txt").read_text(encoding="utf-8")
    assert set(re.findall(r"^[a-z-]+", peers, re.MULTILINE)) <= set(EXTRAS)
    found = json.loads(run(capsys, "info", "--json")[1])
    assert found["extras"].keys() == set(EXTRAS)
    assert found["engine"] or found["problem"]


def start(*arguments: str, **options: object) -> subprocess.Popen[str]:
    """The command in a process of its own, from an installed package or this tree."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        **options,  # type: ignore[call-overload]
    )


def test_a_closed_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start("-m", "rnnbridge", "conventions", stdout=writing)
    os.close(writing)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["formats", "conventions", "info"])
def test_an_output_that_cannot_be_written_is_told_and_exits_1(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        process = start("-m", "rnnbridge", command, stdout=full)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "cannot write the output: No space left on device" in told
    assert "Traceback" not in told


def test_a_closed_output_is_no_error() -> None:
    process = start(
        "-c", "import os, sys; os.close(1); sys.stdout = None; from rnnbridge.cli import main; main(['formats'])"
    )
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0


def test_a_folder_that_is_read_only() -> None:
    """The superuser may write anywhere and becomes somebody else, after a conversion that loads all that it takes."""
    script = (
        "import os, sys\n"
        "from rnnbridge.cli import main\n"
        "source, first, target = sys.argv[1:]\n"
        "assert main(['convert', source, first]) == 0\n"
        "os.getuid() or os.setuid(65534)\n"
        "sys.exit(main(['convert', source, target]))\n"
    )
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to somebody else
        top, folder = Path(name), Path(name) / "folder"
        top.chmod(0o755)
        folder.mkdir()
        folder.chmod(0o555)
        save(weights_of(spec_of("lstm")), top / "source.npz")
        (top / "source.npz").chmod(0o644)
        names = [str(path) for path in (top / "source.npz", top / "first.npz", folder / "target.npz")]
        process = start("-c", script, *names, stdout=subprocess.DEVNULL)
        _, complaint = process.communicate(timeout=120)
        assert complaint == f"rnnbridge: cannot write {names[2]}: Permission denied\n"
        assert process.returncode == 1
        assert list(folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in catalogue().formats.values() if one.write])
def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path, name: str) -> None:
    cell = "gru_after" if name == "arraymancer" else "lstm"  # which has no other
    save(weights_of(spec_of(cell, hidden_size=31)), tmp_path / "source.npz")
    script = (
        "import resource, sys\n"
        "from rnnbridge.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    target = folder / "target"
    process = start("-c", script, "convert", str(tmp_path / "source.npz"), str(target), "--to", name)
    _, complaint = process.communicate(timeout=120)
    if "pip install" in complaint:
        pytest.skip(complaint)
    assert process.returncode == 1, complaint
    assert complaint.startswith(f"rnnbridge: cannot write {target}: File too large")
    assert list(folder.iterdir()) == []


def test_an_interrupt_is_quiet(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from rnnbridge import inspection\n"
        "from rnnbridge.cli import main\n"
        "inspection.inspect = lambda *a, **k: (print('started', flush=True), time.sleep(60))\n"
        "sys.exit(main(['inspect', 'a']))\n"
    )
    process = start("-c", script, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1].strip() == ""
    assert process.returncode == 130
