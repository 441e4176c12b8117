"""The peers' processes, seen from the benchmark: started, pinned, asked and ended. `worker.py` is the other side."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from rnnbridge.errors import RNNBridgeError

_LAST_LINES = 4
# Every library's name for how many threads it may use.
_THREADS = "OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS RNNBRIDGE_NUM_THREADS TF_NUM_INTRAOP_THREADS".split()
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}


class WorkerError(RNNBridgeError, RuntimeError):
    """A peer's process failed, ended or took too long; the message ends in what it said."""


class WorkerProcess:
    """One peer in a process of its own.

    Args:
        peer: its name.
        threads: that it may use; it is pinned to as many CPUs, the same ones as every other.
        time_limit: seconds that it may take for an answer.
    """

    def __init__(self, peer: str, threads: int, time_limit: float = 600) -> None:
        self.peer, self.threads, self._time_limit = peer, threads, time_limit
        self._log = tempfile.TemporaryFile("w+b")  # noqa: SIM115 (lives as long as the process)
        search_path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
        cpus = ",".join(map(str, pinned_to(threads)))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rnnbridge.bench.worker", peer, cpus],
            env={
                **os.environ,
                **_ENVIRONMENT,
                **dict.fromkeys(_THREADS, str(threads)),
                "PYTHONPATH": search_path,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """Send a message and wait for its answer.

        Raises:
            WorkerError: the peer failed at it, or its process ended or was stopped for being too slow.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(self._time_limit, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            self._process.stdin.write(json.dumps({"do": do, **what}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        finally:
            late = not timer.is_alive()
            timer.cancel()
        if not line:
            self._process.wait()
            why = f"took more than {self._time_limit:g} s" if late else f"ended with {self._process.returncode}"
            raise WorkerError(f"{why}{self._last_lines()}")
        answer: dict[str, Any] = json.loads(line)
        if "failure" in answer:
            raise WorkerError(answer["failure"])
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def _last_lines(self) -> str:
        self._log.seek(0)
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        return "".join(f"\n  | {line}" for line in lines[-_LAST_LINES:])


def pinned_to(threads: int) -> list[int]:
    """The CPUs of every worker with so many threads; none where the system does not pin, or has too few.

    The last ones: interrupts and the rest of a system like the first.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    here = sorted(os.sched_getaffinity(0))
    return here[-threads:] if threads <= len(here) else []
