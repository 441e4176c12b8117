"""What a user gets: the source distribution, the wheel, and what they do once installed into a fresh environment.

Slow, and run all the same: nothing else would notice a file that is missing from the wheel.
"""

import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.installing import Environment, install, path_without_compiler, run, succeed

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "examples" / "gpu_model.h5"
NO_COMPILER = "no C++ compiler was found"

pytestmark = pytest.mark.slow


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
def pure(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("pure")
    return install(folder, sdist, PATH=path_without_compiler(folder / "bin"))


@pytest.fixture(scope="session")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution's tree: examples that lie outside the checkout."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    return tree


@pytest.fixture(params=["full", "pure"])
def environment(request: pytest.FixtureRequest) -> Environment:
    """An installation with the engine, and one without."""
    installed: Environment = request.getfixturevalue(request.param)
    return installed


@pytest.fixture(params=["empty folder", "clone's root"])
def start(request: pytest.FixtureRequest, environment: Environment) -> Path:
    """Where the user stands: at the clone's root Python finds the source tree before what is installed."""
    return environment.empty if request.param == "empty folder" else ROOT


def sources(*folders: str) -> set[str]:
    """What git tracks in the folders and what it has not seen yet, without what it ignores and what is deleted."""
    listed = succeed("git", "ls-files", "--cached", "--others", "--exclude-standard", *folders, cwd=ROOT).splitlines()
    return {name for name in listed if (ROOT / name).is_file()}


def test_one_wheel_serves_every_python_of_a_platform(wheel: Path) -> None:
    python, abi, platform = wheel.stem.split("-")[-3:]
    assert (python, abi) == ("py3", "none")
    assert platform != "any"


def test_the_wheel_holds_the_package_the_library_and_its_header(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    library = {name for name in names if name.startswith("rnnbridge/lib/librnnbridge.")}
    converters = {f"rnnbridge/{name}" for name in sources("converters")}
    assert len(library) == 1
    assert "rnnbridge/py.typed" in names
    assert names == {*sources("rnnbridge"), *converters, *library, "rnnbridge/include/rnnbridge.h"}


def test_the_wheel_says_who_made_it_and_under_which_licence(wheel: Path) -> None:
    names = {name.partition(".dist-info/")[2] for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" in name}
    assert names == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_the_sdist_holds_the_tree_and_its_metadata(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert names == {*sources(), "PKG-INFO"}


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


def test_the_demo_runs_on_the_engine(full: Environment, unpacked: Path) -> None:
    printed = succeed(full.python, unpacked / "examples" / "gpu_to_cpu.py", full.empty, cwd=full.empty)
    assert printed.count("24 of 24") == 2
    assert "cpu.pt: left out; writing a PyTorch file needs the package 'torch'" in printed


def test_the_demo_runs_without_the_engine(pure: Environment, unpacked: Path) -> None:
    printed = succeed(pure.python, unpacked / "examples" / "gpu_to_cpu.py", pure.empty, cwd=pure.empty)
    assert "cpu.h5: error" in printed
    assert printed.count("24 of 24") == 0


def test_a_c_program_uses_the_installed_library(full: Environment, unpacked: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source, lib = unpacked / "examples" / "infer.c", full.package / "lib"
    link = (f"-I{full.package / 'include'}", f"-L{lib}", "-lrnnbridge", f"-Wl,-rpath,{lib}", "-lm")
    succeed(compiler, source, "-o", tmp_path / "infer", *link, cwd=tmp_path)
    assert "h_n" in succeed(tmp_path / "infer", cwd=tmp_path)


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
