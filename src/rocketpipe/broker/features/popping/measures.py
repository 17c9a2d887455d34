"""What is told of pops and of what shows again, under RocketMQ's names.

Units at the ends of names are RocketMQ's: it calls a number of notes one of milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rocketpipe.broker.counts import Counts
from rocketpipe.broker.features.popping.revive_log import ReviveLog
from rocketpipe.metrics import Distribution, Family, Kind, Series, single

#: What is counted was stored.
_STORED: Final = {"put_status": "PUT_OK"}


def families(revive_log: ReviveLog, counts: Counts, named: Mapping[str, str]) -> Iterator[Family]:
    """Notes of pops: how many are needed still, were written and are done with."""
    behind = [
        (notes, age_ms, {**named, "queue_id": str(queue_id)})
        for queue_id, (notes, age_ms) in enumerate(revive_log.behind())
    ]
    yield Family(
        "rocketmq_pop_revive_lag_milliseconds",
        Kind.GAUGE,
        "Notes of pops from the oldest on that is not acknowledged; a number, no milliseconds.",
        (Series(notes, labels) for notes, _, labels in behind),
    )
    yield Family(
        "rocketmq_pop_revive_latency_milliseconds",
        Kind.GAUGE,
        "Milliseconds since the oldest pop that is not acknowledged.",
        (Series(age_ms, labels) for _, age_ms, labels in behind),
    )
    yield Family(
        "rocketmq_pop_revive_in_message_total",
        Kind.COUNTER,
        "Notes of pops (CK) and acknowledgements (ACK) that were written.",
        (
            Series(n, {**_about(named, group, topic), "revive_message_type": kind, **_STORED})
            for group, topic, kind, n in counts.pop_notes()
        ),
    )
    yield Family(
        "rocketmq_pop_revive_out_message_total",
        Kind.COUNTER,
        "Notes of pops (CK) and acknowledgements (ACK) that are done with.",
        (
            Series(
                n,
                {
                    **_about(named, group, topic),
                    "queue_id": str(queue_id),
                    "revive_message_type": kind,
                },
            )
            for group, topic, kind, queue_id, n in counts.pop_notes_done()
        ),
    )
    yield Family(
        "rocketmq_pop_revive_retry_messages_total",
        Kind.COUNTER,
        "Popped messages that were not acknowledged in time, and show again.",
        (
            Series(n, {**_about(named, group, topic), **_STORED})
            for group, topic, n in counts.came_again()
        ),
    )
    yield single(
        "rocketmq_pop_checkpoint_buffer_size",
        Kind.GAUGE,
        "Pops that are in flight.",
        len(revive_log.flights),
        **named,
    )
    scans = counts.pop_scans
    yield Family(
        "rocketmq_pop_buffer_scan_time_consume_milliseconds",
        Kind.HISTOGRAM,
        "Milliseconds that looks for pops whose time is over took.",
        (Distribution(scans.bounds, scans.counts, scans.total, named),),
    )


def _about(named: Mapping[str, str], group: str, topic: str) -> dict[str, str]:
    """Retries count as those of their own topic, as in RocketMQ."""
    return {**named, "consumer_group": group, "topic": topic}
