"""Parts and the ledger as records."""

from __future__ import annotations

import msgspec
import pytest
from tests.broker.support.sending_parts import HOST

from rocketpipe.broker.features.staging.ledger import AppEntry
from rocketpipe.broker.features.staging.records import (
    STAGES_QUEUE,
    Committed,
    Delivered,
    Dropped,
    Lapsed,
    LedgerRecord,
    OpenCommit,
    Part,
    Prepared,
    Settled,
    Summary,
    ledger_put,
    part_of,
    part_put,
    read_ledger,
)
from rocketpipe.errors import RecordError
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.names import STAGING_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.record.codec import RecordView, encode_record
from rocketpipe.store.log.puts import Put

PART = Part(
    batch=("an app", 17),
    stage="s",
    number=3,
    topic="orders",
    queue_id=2,
    sys_flag=0,
    born_ms=5,
    born_host=HOST,
    body=b"batch",
)


def stored(put: Put) -> RecordView:
    message = StoredMessage(
        topic=put.topic,
        body=put.body,
        raw_properties=put.properties,
        queue_id=put.queue_id,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(0),
        born_ms=put.born_ms,
        born_host=Host.unpack(put.born_host),
        stored_ms=9,
        store_host=Host.unpack(HOST),
    )
    return RecordView(encode_record(message))


def test_a_part_is_read_as_it_was_written() -> None:
    put = part_put(PART)
    assert (put.topic, put.queue_id) == (STAGING_TOPIC, STAGES_QUEUE)
    assert part_of(stored(put)) == PART


def test_what_is_no_part_is_refused() -> None:
    with pytest.raises(RecordError, match="no part of a stage"):
        part_of(stored(part_put(PART)._replace(properties=b"STAGE\x01s\x02")))
    text = part_put(PART).properties.replace(b"17", b"x")
    with pytest.raises(RecordError, match="no part of a stage"):
        part_of(stored(part_put(PART)._replace(properties=text)))


@pytest.mark.parametrize(
    "record",
    [
        Committed(app="a", batch=1, stages={"s": 2}, plan="elsewhere", content="2 rows"),
        Delivered(app="a", batch=1, parts=2),
        Dropped(stages=("s", "t")),
        Prepared(app="a", batch=1, stages={"s": 2}, home="b", token="t"),
        Settled(app="a", batch=1, plan="rest"),
        Lapsed(tokens=("t", "u")),
        Summary(
            apps=(
                AppEntry(
                    app="a", runs=((0, 3),), age_ms=5, plans=((3, "p"),), contents=((3, "c"),)
                ),
            ),
            open=(OpenCommit(app="a", batch=3, stages={"s": 2}, moved=1),),
            stages_from=7,
            lapsed=("t",),
        ),
    ],
)
def test_the_ledger_is_read_as_it_was_written(record: LedgerRecord) -> None:
    def own(body: bytes) -> Put:
        return part_put(PART)._replace(body=body)

    assert read_ledger(ledger_put(own, record).body) == record


def test_what_is_no_ledger_is_refused() -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_ledger(b'{"do":"something"}')
