"""What a job found, as a page."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import pyarrow as pa

from rocketpipe.jobs import plots
from rocketpipe.jobs.outcome import Outcome
from rocketpipe.jobs.page import MOST_ROWS, page, shown

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_a_page_has_it_all_and_needs_nothing_else() -> None:
    outcome = Outcome(
        headline="3 <lost>",
        ok=False,
        figures={"new_rows": 3},
        tables={
            "over_time": pa.table({"name": ["<b>"], "count": [1_000]}),
            "none": pa.table({"x": []}),
            "many": pa.table({"x": list(range(MOST_ROWS + 7))}),
        },
        plots=[plots.bars("Lost", {"a": 3})],
    )
    text = page("audit", NOON, 1.25, outcome)
    assert "<h1 class=bad>3 &lt;lost&gt;</h1>" in text
    assert "<b>3</b><span>new rows</span>" in text
    assert "<td class=text>&lt;b&gt;</td><td>1,000</td>" in text
    assert "and 7 rows more" in text
    assert '<p class="quiet">none</p>' in text
    assert text.count("<svg") == 1
    assert not re.search(r"https?://|<script|<link|src=", text)


def test_values_are_written_for_people() -> None:
    values = [None, True, 1_234, 0.126, NOON, date(2026, 5, 1), ["a", 2], "x"]
    assert [shown(each) for each in values] == [
        "–",
        "yes",
        "1,234",
        "0.1",
        "2026-05-01 12:00:00",
        "2026-05-01",
        "a, 2",
        "x",
    ]
