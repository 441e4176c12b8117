"""The tolerance that tests share is the one that a proof uses."""

from rnnbridge.proof.tolerance import float32_tolerance, max_abs_error, run_reference

__all__ = ["float32_tolerance", "max_abs_error", "run_reference"]
