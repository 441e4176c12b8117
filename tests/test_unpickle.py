"""Pickles as data: what Python itself would build of plain values, nothing run, and hostile ones refused."""

from __future__ import annotations

import io
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import rnnbridge as rb
from rnnbridge.files.unpickle import Global, Inert, unpickle

PLAIN = {
    "text": "ünïcode £",
    "long": "x" * 70000,
    "numbers": [0, 255, 65535, -1, 1 << 40, -(1 << 200), 1.5, float("inf")],
    "flags": (True, False, None),
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "bytes": [b"", b"\x00\xff" * 300],
    "nested": {"a": {"b": [{"c": ()}]}, 3: "three"},
}


def read(content: bytes) -> Any:
    return unpickle(io.BytesIO(content), "file")


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("case", PLAIN)
def test_plain_values_are_what_pickle_makes_of_them(case: str, protocol: int) -> None:
    assert read(pickle.dumps(PLAIN[case], protocol)) == PLAIN[case]


def test_one_value_met_twice_is_one_value() -> None:
    inner = ["a"]
    one, other = read(pickle.dumps([inner, inner], 2))
    assert one is other


def test_what_would_run_code_becomes_a_placeholder(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> Any:
            return (os.mkdir, (str(tmp_path / "made"),), {"state": 1}, iter([1]), iter([("key", 2)]))

    found = read(pickle.dumps(Attack(), 2))
    assert isinstance(found, Inert)
    assert found.what == Global(os.mkdir.__module__, "mkdir")
    assert (found.arguments, found.state, found.items) == ((str(tmp_path / "made"),), {"state": 1}, {"key": 2})
    assert not (tmp_path / "made").exists()


def test_an_object_of_an_unknown_class_keeps_its_state() -> None:
    found = read(b"\x80\x02cnowhere.at.all\nThing\n)\x81}X\x01\x00\x00\x00aK\x03sb.")
    assert (found.what, found.state) == (Global("nowhere.at.all", "Thing"), {"a": 3})


def test_items_with_keys_that_are_not_plain_are_left_out() -> None:
    assert read(pickle.dumps(OrderedDict([((1, 2), "x"), ("a", 3)]), 2)).items == {"a": 3}


HOSTILE = {
    "nothing": b"",
    "no end": b"\x80\x02]",
    "an empty stack": b"\x80\x02.",
    "two values": b"\x80\x02]].",
    "a tuple of too few": b"\x80\x02K\x01\x86.",
    "a mark for a value": b"\x80\x02(\x85.",
    "no mark": b"\x80\x02K\x01t.",
    "an unknown memo": b"\x80\x02h\x07.",
    "a memo of a mark": b"\x80\x02(q\x00.",
    "a text of 4 GB": b"\x80\x02X\xff\xff\xff\xffabc.",
    "bytes of an exabyte": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x0fabc.",
    "a memo far away": b"\x80\x02]r\xff\xff\xff\x7f0h\x01.",
    "items of a number": b"\x80\x02K\x01K\x02K\x03s.",
    "half an item": b"\x80\x02}(K\x01u.",
    "values put into a number": b"\x80\x02K\x01K\x02a.",
    "a call with a list": b"\x80\x02cos\nsystem\n]R.",
    "a class named by numbers": b"\x80\x04K\x01K\x02\x93.",
    "an extension's code": b"\x80\x02\x82\x01.",
    "an instance as in Python 1": b"(ios\nsystem\n.",
    "a number of many digits": b"I" + b"9" * 10**5 + b"\n.",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_pickle_is_a_format_error(case: str) -> None:
    with pytest.raises(rb.FormatError, match=r"^file: damaged pickle"):
        read(HOSTILE[case])


def test_deep_nesting_is_read_and_let_go() -> None:
    deep = read(b"\x80\x02" + b")" + b"\x85" * 10**5 + b".")
    assert len(deep) == 1
    assert read(b"\x80\x02}(" + b")" + b"\x85" * 10**5 + b"K\x01u.") == {}
