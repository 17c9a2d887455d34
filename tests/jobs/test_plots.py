"""Plots as SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from rocketpipe.jobs import plots
from rocketpipe.jobs.plots import Mark, Series


def svg(figure: str) -> ElementTree.Element:
    found = ElementTree.fromstring(figure).find("svg")
    assert found is not None
    return found


def texts(figure: str) -> list[str]:
    return [text.text or "" for text in svg(figure).iter("text")]


def test_a_line_breaks_where_nothing_is_known() -> None:
    points = [(0.0, 1.0), (1.0, 2.0), (20.0, 3.0), (21.0, 4.0)]
    outage = Mark(5.0, "broker <killed>", 18.0, is_blind=True)
    figure = plots.lines("Lag", [Series("a & b", points, 2)], [outage])
    drawn = [line.attrib for line in svg(figure).iter("polyline")]
    assert len(drawn) == 2
    assert {line["class"] for line in drawn} == {"line s2"}
    assert "broker <killed>" in texts(figure)
    assert "a &amp; b" in figure
    [shaded] = [rect for rect in svg(figure).iter("rect") if rect.get("class") == "outage"]
    per_second = (plots.WIDTH - plots.LEFT - plots.RIGHT) / 21
    assert float(shaded.attrib["width"]) == pytest.approx(13 * per_second, abs=0.1)


def test_a_line_is_whole_where_only_a_look_took_long() -> None:
    series = Series("a", [(0.0, 1.0), (20.0, 3.0)], 0)
    assert len(list(svg(plots.lines("Lag", [series])).iter("polyline"))) == 1


def test_a_plot_of_nothing_is_still_one() -> None:
    assert texts(plots.lines("Nothing", []))[0] == "0"
    assert list(svg(plots.bars("Nothing", {}))) == []
    assert list(svg(plots.heat("Nothing", {}, "min"))) == []


def test_all_of_a_line_is_inside() -> None:
    figure = plots.lines("Lag", [Series("a", [(0.0, 0.0), (7.0, 123_456.0)], 0)])
    line = next(svg(figure).iter("polyline"))
    for point in line.attrib["points"].split():
        x, y = map(float, point.split(","))
        assert plots.LEFT <= x <= plots.WIDTH - plots.RIGHT
        assert plots.TOP <= y <= plots.HEIGHT - plots.BOTTOM


def test_marks_close_together_are_written_below_each_other() -> None:
    figure = plots.lines("x", [], [Mark(1.0, "one"), Mark(1.1, "two"), Mark(100.0, "last")])
    labels = [text for text in svg(figure).iter("text") if text.get("class") == "mark-label"]
    assert labels[0].attrib["y"] != labels[1].attrib["y"]
    assert [label.attrib["text-anchor"] for label in labels] == ["start", "start", "end"]


def test_cells_have_their_numbers_and_missing_ones_are_left_out() -> None:
    figure = plots.heat("Delay", {("UA", 5): -0.2, ("UA", 6): 30.0, ("AA", 6): -4.0}, "min")
    assert len(list(svg(figure).iter("rect"))) == 3
    assert texts(figure) == ["5:00", "6:00", "AA", "-4", "UA", "0", "30"]


def test_bars_are_sorted_by_length() -> None:
    figure = plots.bars("Letters", {"UA": 5, "AA": 1_000})
    assert texts(figure) == ["AA", "1,000", "UA", "5"]


@pytest.mark.parametrize(
    ("least", "step"), [(0.3, 0.5), (1, 1), (1.1, 2), (3, 5), (7, 10), (1_200, 2_000)]
)
def test_steps_are_round(least: float, step: float) -> None:
    assert plots.nice_step(least) == pytest.approx(step)


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (1_500, "1.5k"), (2_000_000, "2M")])
def test_numbers_are_short(value: float, text: str) -> None:
    assert plots.short(value) == text


def test_text_on_a_cell_can_be_read() -> None:
    assert plots.shade(0.0, 40.0)[1] == "#1c1c1c"
    assert plots.shade(40.0, 40.0)[1] == "#ffffff"
    assert plots.shade(-3.0, 40.0) == ("#4f83cc", "#ffffff")


def test_a_name_that_is_too_long_loses_its_middle() -> None:
    assert plots.clipped("orders", 9) == "orders"
    assert plots.clipped("broker-a/orders/11", 9) == "brok…s/11"
    assert "broker-a/orders/11" in plots.bars("Lag", {"broker-a/orders/11": 2.5}, name_width=63)


def test_moments_are_written_as_the_page_likes() -> None:
    figure = plots.lines("Lag", [Series("a", [(0.0, 1.0), (4.0, 2.0)], 0)], moment="at {}".format)
    assert "at 2" in texts(figure)


def test_a_line_of_one_point_can_be_seen_and_the_last_moment_read() -> None:
    figure = plots.lines("Rows", [Series("a", [(0.0, 1.0)], 3)])
    [point] = svg(figure).iter("circle")
    assert point.attrib["class"] == "point s3"
    labels = [text for text in svg(figure).iter("text") if (text.text or "").endswith(" s")]
    assert [label.attrib["text-anchor"] for label in labels] == ["middle", "end"]
