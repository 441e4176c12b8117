"""What a user gets: the source distribution, the wheel, and what they do once installed into a fresh environment.

Slow, and run all the same: nothing else would notice a file that is missing from the wheel.
"""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "examples" / "gpu_model.h5"
NO_COMPILER = "no C++ compiler was found"

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Result:
    code: int
    output: str


def run(*command: object, cwd: Path, **environment: str) -> Result:
    """Run without what would lead to the source tree: PYTHONPATH, and the variables of the environment's own tools."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CXX", "CMAKE_ARGS")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=kept | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Result(done.returncode, done.stdout)


def succeed(*command: object, cwd: Path, **environment: str) -> str:
    result = run(*command, cwd=cwd, **environment)
    assert result.code == 0, result.output
    return result.output


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment with rnnbridge and its base dependencies, and an empty folder to start from."""

    folder: Path
    install_log: str

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def command(self) -> Path:
        return self.folder / "venv" / "bin" / "rnnbridge"

    @property
    def empty(self) -> Path:
        (self.folder / "empty").mkdir(exist_ok=True)
        return self.folder / "empty"


def install(folder: Path, what: Path, **environment: str) -> Environment:
    venv.create(folder / "venv", with_pip=True)
    log = succeed(folder / "venv" / "bin" / "python", "-m", "pip", "install", "-v", what, cwd=folder, **environment)
    return Environment(folder, log)


def path_without_compiler(folder: Path) -> str:
    """A PATH on which there is a Python and nothing else."""
    folder.mkdir()
    (folder / "python3").symlink_to(sys.executable)
    return str(folder)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source distribution of the tree and the wheel built from it, as a release would make them."""
    folder = tmp_path_factory.mktemp("dist")
    succeed(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def sdist(built: Path) -> Path:
    (path,) = built.glob("*.tar.gz")
    return path


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def full(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(tmp_path_factory.mktemp("full"), wheel)


@pytest.fixture(scope="session")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("pure")
    return install(folder, ROOT, PATH=path_without_compiler(folder / "bin"))


@pytest.fixture(params=["full", "pure"])
def environment(request: pytest.FixtureRequest) -> Environment:
    """An installation with the engine, and one without."""
    installed: Environment = request.getfixturevalue(request.param)
    return installed


@pytest.fixture(params=["empty folder", "clone's root"])
def start(request: pytest.FixtureRequest, environment: Environment) -> Path:
    """Where the user stands: at the clone's root Python finds the source tree before what is installed."""
    return environment.empty if request.param == "empty folder" else ROOT


def converters() -> set[str]:
    return {f"rnnbridge/converters/{path.name}" for path in (ROOT / "converters").glob("*.py")}


def test_one_wheel_serves_every_python_of_a_platform(wheel: Path) -> None:
    python, abi, platform = wheel.stem.split("-")[-3:]
    assert (python, abi) == ("py3", "none")
    assert platform != "any"


def test_the_wheel_holds_the_library_the_converters_and_the_types(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"rnnbridge/py.typed", *converters()} <= names
    assert [name for name in names if name.startswith("rnnbridge/lib/librnnbridge.")]


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"rnnbridge"}


def test_the_sdist_holds_all_sources(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("native", "converters", "rnnbridge", "tools", "tests", "examples")
    tracked = succeed("git", "ls-files", *folders, cwd=ROOT).split()
    assert {"LICENSE", "README.md", "Makefile", "pyproject.toml", *tracked} <= names


def test_the_command_inspects_the_demo_file(environment: Environment, start: Path) -> None:
    assert "GRU" in succeed(environment.command, "inspect", DEMO, cwd=start)


def test_the_module_inspects_the_demo_file(environment: Environment, start: Path) -> None:
    assert "GRU" in succeed(environment.python, "-m", "rnnbridge", "inspect", DEMO, cwd=start)


def test_load_reads_the_demo_file(environment: Environment, start: Path) -> None:
    script = f"import rnnbridge as rb; print(*[layer.spec.cell for layer in rb.load({str(DEMO)!r}).layers.values()])"
    assert sorted(set(succeed(environment.python, "-c", script, cwd=start).split())) == ["gru", "lstm"]


def test_the_command_converts_the_demo_file(environment: Environment, tmp_path: Path) -> None:
    succeed(environment.command, "convert", DEMO, tmp_path / "out.npz", cwd=environment.empty)
    assert (tmp_path / "out.npz").stat().st_size > 0


def test_info_names_the_installed_version(environment: Environment, wheel: Path, start: Path) -> None:
    assert wheel.name.split("-")[1] in succeed(environment.python, "-m", "rnnbridge", "info", cwd=start)


RUN_ENGINE = (
    "import numpy as np, rnnbridge as rb; print(rb.RNN(3, 2, activation='tanh')(np.ones((5, 1, 3), 'f4'))[0].shape)"
)


def test_the_engine_runs(full: Environment) -> None:
    for start in (full.empty, ROOT):
        assert succeed(full.python, "-c", RUN_ENGINE, cwd=start).strip() == "(5, 1, 2)"


def test_without_a_compiler_the_install_says_so(pure: Environment, full: Environment) -> None:
    assert NO_COMPILER in pure.install_log
    assert NO_COMPILER not in full.install_log


def test_without_the_library_the_engine_says_what_to_do(pure: Environment) -> None:
    result = run(pure.python, "-c", RUN_ENGINE, cwd=pure.empty)
    assert result.code != 0
    assert "NativeError" in result.output
    assert "compiler" in result.output


@pytest.mark.parametrize("compiler", ["/nonexistent/c++", "false"])
def test_a_named_compiler_that_does_not_run_is_no_compiler(compiler: str, tmp_path: Path) -> None:
    log = succeed(
        sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "-w", tmp_path, ROOT, cwd=tmp_path, CXX=compiler
    )
    assert NO_COMPILER in log
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")


def test_a_broken_build_is_an_error_where_there_is_a_compiler(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.glob("rnnbridge-*")
    (tree / "native" / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(no LANGUAGES CXX)\nno()\n"
    )
    result = run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, tree, cwd=tmp_path)
    assert result.code != 0
    assert "wheel.cmake=false" in result.output
    assert not list(tmp_path.glob("*.whl"))
