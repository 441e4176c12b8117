"""What is installed here: rnnbridge, its engine, and the packages that it can work with."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rnnbridge import _native, engine
from rnnbridge.errors import NativeError
from rnnbridge.tables import grid
from rnnbridge.version import version_of

if TYPE_CHECKING:
    from rich.table import Table as Grid

# What the extras of pyproject.toml bring, and tf-keras, which reads and judges what Keras 3 cannot.
EXTRAS = (
    "jax",
    "keras",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "safetensors",
    "tensorflow",
    "tensorflow-cpu",
    "tf-keras",
    "torch",
)


@dataclass(frozen=True)
class Info:
    """Versions as text; `None` where a thing is not here. `problem` says why the engine is not."""

    version: str | None
    python: str
    engine: str | None
    instruction_set: str | None
    usable_sets: tuple[str, ...]
    threads: int | None
    warnings: tuple[str, ...]
    problem: str | None
    extras: dict[str, str | None]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __rich__(self) -> Grid:
        drawn = grid("", "")
        drawn.show_header = False
        drawn.add_row("rnnbridge", self.version or "not installed, run from its source")
        drawn.add_row("Python", self.python)
        drawn.add_row("engine", self.engine or f"not here: {self.problem}")
        if self.engine:
            usable = ", ".join(self.usable_sets)
            drawn.add_row("instruction set", f"{self.instruction_set or 'none'} (usable: {usable})")
            drawn.add_row("threads", str(self.threads))
        for warning in self.warnings:
            drawn.add_row("warning", warning)
        for name, version in self.extras.items():
            drawn.add_row(name, version or "not here")
        return drawn


def gather() -> Info:
    """Look around."""
    try:
        build, problem = _native.build_info(), None
        threads = engine.get_num_threads()
    except NativeError as error:
        build, problem, threads = {}, str(error), None
    isa = build.get("isa", {})
    return Info(
        version=version_of() or None,
        python=platform.python_version(),
        engine=build.get("version"),
        instruction_set=isa.get("active"),
        usable_sets=tuple(isa.get("usable", ())),
        threads=threads,
        warnings=tuple(isa.get("warnings", ())),
        problem=problem,
        extras={name: version_of(name) or None for name in EXTRAS},
    )
