from __future__ import annotations

from rocketpipe.model import trace
from rocketpipe.sql.system_tables import trace_rows


def test_a_trace_message_is_a_row_for_each_step() -> None:
    told = [
        trace.Consuming(
            time_ms=5,
            region=None,
            group="shop",
            request_id="r",
            message_id="m",
            retries=1,
            keys="k",
        ),
        trace.Consumed(
            request_id="r",
            message_id="m",
            cost_ms=3,
            success=False,
            keys=None,
            outcome=trace.Outcome.EXCEPTION,
        ),
    ]
    before, after = trace_rows(trace.encode(told).encode())
    assert (before["step"], before["time"], before["group"], before["retries"]) == (
        "consuming",
        5000,
        "shop",
        1,
    )
    assert (after["step"], after["outcome"], after["cost_ms"]) == ("consumed", "exception", 3)
    assert after["time"] is None


def test_what_is_no_trace_gives_no_rows() -> None:
    assert trace_rows(b"\xff") == []
    assert trace_rows(b"Pub\x01x\x02") == []
