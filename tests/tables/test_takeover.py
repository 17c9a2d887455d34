"""A rebuild that was cut off while a table got its rows; the deaths are in tests/faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tables.support.mend_deaths import WIDE, beside, filled

from rocketpipe.tables.directory import TableDirectory
from rocketpipe.tables.errors import HalfRebuilt, NotATable
from rocketpipe.tables.spec import TableSpec
from rocketpipe.tables.takeover import Takeover, provisional
from rocketpipe.tables.verifying import verify


def test_a_table_becomes_what_the_new_one_is(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    old = filled(place, "iceberg", "")
    new = filled(beside(place), "iceberg", "", schema=WIDE, new_columns="ignore", start="latest")
    (new.directory.checkpoint / "offsets").mkdir()
    (new.directory.checkpoint / "offsets" / "7").touch()
    takeover = Takeover(old.directory, beside(place), new.spec)
    old.directory.takeover_path.write_text(new.spec.to_json())
    with pytest.raises(HalfRebuilt, match="finish it with `rocketpipe table rebuild`"):
        old.check()
    with pytest.raises(HalfRebuilt):
        verify(place)
    assert Takeover.read(old.directory, beside(place)) == takeover
    takeover.finish()
    assert TableDirectory(place).read() == new.spec
    assert old.checkpoint.planned == 7
    assert not beside(place).exists()
    assert Takeover.read(old.directory, beside(place)) is None
    old.directory.takeover_path.write_text("{")
    with pytest.raises(NotATable, match="is damaged"):
        Takeover.read(old.directory, beside(place))


def test_only_a_table_of_a_database_needs_a_name_while_it_is_made() -> None:
    spec = TableSpec(
        topic="orders", name_server="a:1", format="postgres", database="x", table="sales.orders"
    )
    name = provisional(spec)
    assert name is not None
    assert name.startswith("sales.rocketpipe_new_")
    assert name == provisional(spec)
    assert provisional(TableSpec(topic="orders", name_server="a:1", format="iceberg")) is None
