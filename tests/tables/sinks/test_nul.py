"""Texts with a NUL in them."""

from __future__ import annotations

import pyarrow as pa

from rocketpipe.tables.sinks.nul import rows_with


def test_rows_with_a_nul_are_found_however_deep_it_is() -> None:
    deep = pa.struct([("a", pa.list_(pa.string()))])
    columns = {
        "text": pa.array(["x", "a\0", None, "", "", ""], pa.string()),
        "keys": pa.array(
            [["x"], None, ["a", "\0"], [], [None], ["\0", "\0"]], pa.list_(pa.string())
        ),
        "deep": pa.array([{"a": ["\0"]}, *[None] * 5], deep),
        "named": pa.array(
            [None] * 3 + [[("k\0", 1)]] + [None] * 2, pa.map_(pa.string(), pa.int64())
        ),
        "bytes": pa.array([b"\0"] * 6, pa.binary()),
        "number": pa.array([0] * 6),
    }
    assert rows_with(columns) == {0: "deep", 1: "text", 2: "keys", 3: "named", 5: "keys"}
