"""Who may import whom, and what `import rnnbridge` may load.

The rule is the two tables below: a module may import what its line names and nothing else of the project. A module
that is not in a table fails the test, so that where it belongs is decided once, here.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# NumPy only, knows no engine: works where the compiled library is missing.
CONVERSION = {
    "errors": "",
    "activation": "errors",
    "spec": "errors activation",
    "weights": "errors activation spec",
    "gates": "errors activation spec weights",
    "layout": "errors",
    "convention": "errors activation spec weights gates layout",
    "rewrite": "errors activation spec weights gates layout convention",
    "reference": "errors activation spec weights gates",
    "files": "errors",
    "formats": "errors activation spec weights gates layout convention rewrite",
    "converters": "errors activation spec weights gates layout convention rewrite reference files formats",
    "bundle": "errors activation spec weights gates layout convention rewrite reference files formats converters",
}
# Knows the canonical form and no framework's convention.
ENGINE = {
    "_native": "errors activation spec",
    "engine": "errors activation spec weights _native",
    "layers": "errors activation spec weights _native engine",
    "training": "errors activation spec weights _native engine layers",
}
# Stand above both and may use both, each what is written before it.
ABOVE = ("proof", "adapters", "bench", "cli", "__main__")

FRAMEWORKS = {
    "chainer", "flax", "jax", "keras", "mxnet", "onnx", "onnxruntime", "paddle", "safetensors", "tensorflow",
    "tf_keras", "theano", "torch",
}  # fmt: skip
# Base dependencies that only a reader of HDF5 or the command needs.
LATE = {"click", "h5py", "rich"}


def allowed(part: str) -> set[str]:
    below = CONVERSION | ENGINE
    if part == "converters":  # which never import each other
        return set(below[part].split())
    if part in below:
        return {part, *below[part].split()}
    return {*below, *ABOVE[: ABOVE.index(part) + 1]}


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


def parts_imported(tree: ast.AST) -> set[str]:
    names = {name for node in ast.walk(tree) for name in imported(node)}
    return {name.split(".")[1] for name in names if name.startswith("rnnbridge.")}


def frameworks_imported(tree: ast.AST) -> set[str]:
    return {name.split(".")[0] for node in at_import(tree) for name in imported(node)} & FRAMEWORKS


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


named = pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))


@named
def test_a_module_imports_only_what_its_line_allows(path: Path) -> None:
    part = part_of(path)
    assert part in {*CONVERSION, *ENGINE, *ABOVE}, f"decide where {part} belongs, in the tables of this test"
    assert parts_imported(tree_of(path)) <= allowed(part)


@named
def test_a_framework_is_imported_inside_a_function(path: Path) -> None:
    assert not frameworks_imported(tree_of(path))


@pytest.mark.parametrize("part", [*CONVERSION, *ENGINE])
def test_the_tables_have_no_cycle(part: str) -> None:
    below = CONVERSION | ENGINE
    assert all(part not in below[other].split() for other in below[part].split())


@pytest.mark.parametrize(
    ("source", "parts", "frameworks"),
    [
        ("import rnnbridge.spec", {"spec"}, set()),
        ("from rnnbridge import layout as x, spec", {"layout", "spec"}, set()),
        ("from rnnbridge.files.hdf5 import read", {"files"}, set()),
        ("def f():\n    import torch\n    from rnnbridge.converters import onnx", {"converters"}, set()),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None", set(), {"torch"}),
        ("class A:\n    from keras.layers import GRU", set(), {"keras"}),
        ("import typing\nif typing.TYPE_CHECKING:\n    import torch", set(), set()),
    ],
)
def test_the_reading_of_imports(source: str, parts: set[str], frameworks: set[str]) -> None:
    tree = ast.parse(source)
    assert (parts_imported(tree), frameworks_imported(tree)) == (parts, frameworks)


def test_import_loads_no_framework() -> None:
    script = "import sys, rnnbridge; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert {"rnnbridge", "numpy"} <= loaded
    assert not loaded & (FRAMEWORKS | LATE)
