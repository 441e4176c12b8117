"""Rows: how one framework lays out one kind of recurrent layer (row.py), and what a row must say (check.py)."""

from rnnbridge.convention.row import Convention

__all__ = ["Convention"]
