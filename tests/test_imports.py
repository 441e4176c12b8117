"""Who may import whom, and what `import rnnbridge` may load.

A part is a module or folder of rnnbridge/, or `converters`. It may import the parts that stand to the left of it in
one of the three chains below. A part that is in no chain fails the test, so that where it belongs is decided here.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# NumPy only, knows no engine: works where the compiled library is missing.
CONVERSION = (
    "errors < version < activation < spec < weights < gates < layout < slot < convention < rewrite < files < reference "
    "< catalogue < flat < prefix < converters < bundle < tables < formula < inspection"
).split(" < ")
# Knows the canonical form, and no framework's convention.
ENGINE = (
    "errors < version < activation < spec < weights < gates < _native < engine < layers < files < training"
).split(" < ")
# Stand above both and may use both, and the package as its users see it.
ABOVE = "proof < adapters < bench < cli < __main__".split(" < ")
# Parts that know less than their place would let them.
ONLY = {"layout": {"errors"}, "files": {"errors"}}

# All that a module may import when it is imported itself; anything else, every framework among it, inside a function.
ALWAYS = {"numpy", "rnnbridge", *sys.stdlib_module_names}
# An adapter makes the framework's own classes, so that it is of no use without it, and nothing imports it.
ALSO = {"rnnbridge/cli": {"click"}, "rnnbridge/adapters/pytorch": {"torch"}}


def left_of(part: str, chain: list[str]) -> set[str]:
    return set(chain[: chain.index(part)]) if part in chain else set()


def allowed(part: str) -> set[str]:
    if part in ABOVE:
        return {"rnnbridge", *CONVERSION, *ENGINE, *left_of(part, ABOVE)}
    return ONLY.get(part, left_of(part, CONVERSION) | left_of(part, ENGINE))


def brand(module: str) -> str:
    """The framework a converter is for: the files of one framework share its name as a prefix."""
    return module.split("_")[0]


def part_of(path: Path) -> str:
    """The first name below the package: `files` for rnnbridge/files/hdf5.py, `converters` for converters/keras.py."""
    top, below = path.relative_to(ROOT).parts[:2]
    return below.removesuffix(".py") if top == "rnnbridge" else top


def modules() -> list[Path]:
    package = [path for path in (ROOT / "rnnbridge").rglob("*.py") if path != ROOT / "rnnbridge" / "__init__.py"]
    return sorted([*package, *(ROOT / "converters").rglob("*.py")])


def imported(node: ast.AST) -> list[str]:
    """The dotted names that one statement imports; `from rnnbridge import spec` counts as rnnbridge.spec."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute: converters/ lies beside the package and is installed inside it"
        joined = node.module in ("rnnbridge", "rnnbridge.converters")
        return [f"{node.module}.{alias.name}" if joined else str(node.module) for alias in node.names]
    return []


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements that run when the module is imported: function bodies and type-checking blocks do not."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        yield node
        yield from at_import(node)


def project_imports(tree: ast.AST) -> set[str]:
    """What is imported of the project anywhere in a module, without the leading `rnnbridge.`."""
    names = {name for node in ast.walk(tree) for name in imported(node)}
    return {name.removeprefix("rnnbridge.") for name in names if name.split(".")[0] == "rnnbridge"}


def others_imported(tree: ast.AST) -> set[str]:
    """The packages beside the standard library, NumPy and the project that a module imports when it is imported."""
    return {name.split(".")[0] for node in at_import(tree) for name in imported(node)} - ALWAYS


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


named = pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))


@named
def test_a_part_imports_only_what_is_left_of_it(path: Path) -> None:
    part = part_of(path)
    assert part in {*CONVERSION, *ENGINE, *ABOVE}, f"decide where {part} belongs, in the chains of this test"
    others = {name.split(".")[0] for name in project_imports(tree_of(path))} - {part}
    assert others <= allowed(part)


@named
def test_converters_never_import_each_other(path: Path) -> None:
    imports = {name for name in project_imports(tree_of(path)) if name.startswith("converters.")}
    if part_of(path) == "converters":
        assert {brand(name.split(".")[1]) for name in imports} <= {brand(path.stem)}
    else:
        assert not imports, "converters are found by discovery, never named"


@named
def test_a_framework_is_imported_inside_a_function(path: Path) -> None:
    also = {name for folder, names in ALSO.items() if path.is_relative_to(ROOT / folder) for name in names}
    assert others_imported(tree_of(path)) <= also


@pytest.mark.parametrize(
    ("source", "project", "others"),
    [
        ("import rnnbridge.spec", {"spec"}, set()),
        ("import rnnbridge as rb", {"rnnbridge"}, set()),
        ("from rnnbridge import layout as x, spec", {"layout", "spec"}, set()),
        ("from rnnbridge.files.hdf5 import read", {"files.hdf5"}, set()),
        ("def f():\n    import torch\n    from rnnbridge.converters import onnx", {"converters.onnx"}, set()),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None", set(), {"torch"}),
        ("class A:\n    from keras.layers import GRU", set(), {"keras"}),
        ("import typing\nif typing.TYPE_CHECKING:\n    import torch", set(), set()),
    ],
)
def test_the_reading_of_imports(source: str, project: set[str], others: set[str]) -> None:
    tree = ast.parse(source)
    assert (project_imports(tree), others_imported(tree)) == (project, others)


def loaded_by(script: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{script}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "script",
    [
        "import rnnbridge",
        "import rnnbridge; [getattr(rnnbridge, name) for name in rnnbridge.__all__]; rnnbridge.formats()",
    ],
    ids=["import", "every public name and converter"],
)
def test_numpy_is_all_that_is_loaded(script: str) -> None:
    always = loaded_by("import numpy") | set(sys.stdlib_module_names)  # an environment may load some of its own
    assert loaded_by(script) - always == {"rnnbridge"}
