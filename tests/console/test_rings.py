"""Points of the last hour: as many as an hour has, of as many series as there is room for."""

from __future__ import annotations

from rocketpipe.console.rings import MAX_SERIES, POINTS, Rings


def test_an_hour_of_points_is_kept() -> None:
    rings = Rings()
    for number in range(POINTS + 3):
        rings.add("in", number, None if number % 2 else float(number))
    points = rings.points("in")
    assert len(points["times"]) == len(points["values"]) == POINTS
    assert points["times"][0] == 3
    assert points["values"][0] is None
    assert rings.points("nobody") == {"times": [], "values": []}


def test_the_series_that_nobody_looks_at_goes_first() -> None:
    rings = Rings()
    for number in range(MAX_SERIES):
        rings.watch(f"lag:{number}")
    rings.watch("lag:0")
    rings.watch("lag:new")
    rings.add("in", 1, 1.0)
    assert len(rings) == MAX_SERIES
    names = rings.names("lag:")
    assert "0" in names
    assert "new" in names
    assert not {"1", "2"} & set(names)
