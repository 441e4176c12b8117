"""One file per framework, found by discovery.

The files of one framework share its name as a prefix; no others import each other.
"""
