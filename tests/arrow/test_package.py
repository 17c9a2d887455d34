"""The package: what it exports, and that it needs neither Spark nor Java."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe import arrow

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def run(program: str, *absent: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(absent=set(absent)) + program],
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_is_exported_is_there() -> None:
    for name in arrow.__all__:
        assert getattr(arrow, name).__name__ == name
    assert set(arrow.__all__) <= set(dir(arrow))
    with pytest.raises(AttributeError, match="no attribute 'scam'"):
        arrow.scam  # noqa: B018


def test_topics_are_read_without_spark_java_pandas_or_an_engine(
    tmp_path: Path, unpack_golden: Callable[..., Path]
) -> None:
    store = unpack_golden("5.5.0-stop", tmp_path)
    avro = '{"type": "record", "name": "O", "fields": [{"name": "city", "type": "string"}]}'
    program = f"""
from rocketpipe.arrow import scan
for more in (
    dict(),
    dict(decode="json", schema="city STRING, at TIMESTAMP, by MAP<STRING, INT>"),
    dict(decode="avro", schema={avro!r}),
    dict(decode="text", tags="paid"),
):
    found = scan("orders", log={str(store)!r}, **more)
    print(found.count(), found.to_table().num_rows)
assert not {{name.partition(".")[0] for name in sys.modules}} & {{"pyspark", "py4j", "pandas"}}
"""
    done = run(program, "pyspark", "py4j", "pandas", "duckdb", "polars")
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["340 340", "340 340", "340 340", "100 100"]


@pytest.mark.parametrize("absent", ["pyarrow", "numpy"])
def test_without_the_extra_one_line_says_what_to_install(absent: str) -> None:
    program = (
        "import rocketpipe.arrow\n"
        "try:\n"
        "    rocketpipe.arrow.scan('orders', log='/nowhere')\n"
        "except rocketpipe.arrow.ArrowMissing as error:\n"
        "    print(error)\n"
    )
    done = run(program, absent)
    said = f"no {absent} here: install the extra rocketpipe[arrow] (pip install pyarrow numpy)\n"
    assert done.stdout == said
