"""The table of flights, and what it says of itself."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from demo import data


@pytest.fixture(scope="module")
def whole() -> list[data.Row]:
    return data.rows()


def test_the_table_is_the_one_that_is_known(whole: list[data.Row]) -> None:
    found = data.facts(whole)
    assert found.flights == data.ALL_FLIGHTS == 336_776
    assert found.cancelled.total() == 8_255
    assert found.steps_back == 54_795
    assert len(found.by_carrier) == 16
    assert found.by_carrier["UA"] == 58_665
    assert sum(row["tailnum"] == data.MISSING for row in whole) == 2_512
    assert sum(window.flights for window in found.windows.values()) == 336_776
    assert sum(window.departed for window in found.windows.values()) == 336_776 - 8_255


def test_a_part_of_it_is_spread_over_the_year(whole: list[data.Row]) -> None:
    some = data.rows(1_200)
    assert len(some) == 1_200
    assert {row["month"] for row in some} == {str(month) for month in range(1, 13)}
    assert some[1] == whole[data.ALL_FLIGHTS // 1_200]


def test_a_row_becomes_a_message_with_numbers_and_nulls(whole: list[data.Row]) -> None:
    first, *_ = data.flights(whole[:1])
    assert (first.id, first.aircraft, first.carrier, first.departed) == (0, "N14228", "UA", True)
    body = json.loads(first.body)
    assert body["dep_delay"] == 2
    assert body["time_hour"] == "2013-01-01T10:00:00Z"
    never = next(row for row in whole if row["tailnum"] == data.MISSING)
    flight, *_ = data.flights([never])
    assert flight.aircraft == never["carrier"] + never["flight"]
    assert json.loads(flight.body)["tailnum"] is None


def test_a_missing_package_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "PACKAGE", "nobody_has_this")
    with pytest.raises(data.NoFlights, match="run `make setup`"):
        data.rows()


def test_another_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_table", lambda: tmp_path / "t.zip")
    with pytest.raises(data.NoFlights, match="cannot be read"):
        data.rows()
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("flights.csv", "carrier\nUA\n")
    with pytest.raises(data.NoFlights, match="1 flights, and 336,776 are expected"):
        data.rows()
