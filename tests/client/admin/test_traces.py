"""What clients told of messages becomes the way of each."""

from __future__ import annotations

from typing import Any

from rocketpipe.client.admin.traces import traces_of
from rocketpipe.model.trace import Consumed, Consuming, Published, Recalled, TransactionEnded


def before(time_ms: int, request_id: str, message_id: str = "m") -> Consuming:
    return Consuming(
        time_ms=time_ms,
        region=None,
        group="g",
        request_id=request_id,
        message_id=message_id,
        retries=0,
        keys="k1 k2",
    )


def after(request_id: str, time_ms: int | None = None, **changes: Any) -> Consumed:
    fields: dict[str, Any] = {
        "request_id": request_id,
        "message_id": "m",
        "cost_ms": 1,
        "success": True,
        "keys": None,
        "time_ms": time_ms,
        "group": "h" if time_ms is not None else None,
    }
    return Consumed(**{**fields, **changes})


def test_halves_of_a_handling_are_brought_together_and_all_is_in_the_order_of_time() -> None:
    published = Published(
        time_ms=1,
        region=None,
        group="p",
        topic="t",
        message_id="m",
        tags=None,
        keys=None,
        store_host=None,
        body_bytes=1,
        cost_ms=1,
    )
    ended = TransactionEnded(
        time_ms=2,
        region=None,
        group="p",
        topic="t",
        message_id="m",
        tags=None,
        keys=None,
        store_host=None,
        kind=published.kind,
        transaction_id=None,
        state="COMMIT_MESSAGE",
        from_check=False,
    )
    recalled = Recalled(time_ms=3, region=None, group="p", topic="t", message_id="m", success=False)
    second, first = before(20, "r2"), before(10, "r1")
    done, unsaid = after("r1", 11, success=False), after("r2")
    lost = after("r3", 30)
    told = [second, unsaid, recalled, first, done, lost, ended, published, first]
    (trace,) = traces_of(told)
    assert trace.timeline == [published, ended, recalled, first, done, second, unsaid, lost]
    assert [(each.group, each.success) for each in trace.handlings] == [
        ("g", False),
        ("g", True),
        ("h", True),
    ]
    assert trace.keys == {"k1 k2"}


def test_messages_are_kept_apart_and_what_names_none_is_left_out() -> None:
    traces = traces_of([before(1, "r", "a"), before(1, "r", "b"), before(1, "r", "")])
    assert [trace.message_id for trace in traces] == ["a", "b"]
    (handling,) = traces[0].handlings
    assert (handling.success, handling.group) == (None, "g")
