"""What a feature takes in the fast path is done with the turn, and answered over a socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.broker.fast_path.test_fast_path import ask, serving

from rocketpipe.clock import SystemClock
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import from_command, to_command
from rocketpipe.protocol.requests.pop_offsets import read_message_offsets
from rocketpipe.protocol.requests.popping import AckMessage, PopMessage
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.store.config import FlushMode


def send(opaque: int) -> Command:
    request = SendMessage(
        producer_group="p",
        topic="t",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties="",
        body=b"%d" % opaque,
    )
    return to_command(request, opaque)


def pop(opaque: int) -> Command:
    request = PopMessage(
        consumer_group="g",
        topic="t",
        queue_id=0,
        max_msg_nums=32,
        invisible_time=60_000,
        poll_time=0,
        born_time=SystemClock().now_ms(),
        init_mode=0,
    )
    return to_command(request, opaque)


def ack(opaque: int, popped: Command, offset: int, start: int = 0) -> Command:
    fields = popped.fields
    times = f"{fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']}"
    request = AckMessage(
        consumer_group="g",
        topic="t",
        queue_id=0,
        extra_info=f"{start} {times} 0 broker-a 0 {offset}",
        offset=offset,  # type: ignore[arg-type]
    )
    return to_command(request, opaque)


@pytest.mark.parametrize("flush", [FlushMode.ASYNC, FlushMode.SYNC])
async def test_acknowledgements_among_other_requests_are_answered_each_in_its_way(
    tmp_path: Path, flush: Any
) -> None:
    async with serving(tmp_path, flush=flush) as address:
        await ask(address, *(send(n) for n in range(6)))
        (popped,) = await ask(address, pop(1))
        offsets = read_message_offsets(popped.fields["msgOffsetInfo"])
        assert list(offsets.values()) == [[0, 1, 2, 3, 4, 5]]
        answers = await ask(
            address,
            ack(1, popped, 0),
            send(2),
            ack(3, popped, 1),
            ack(4, popped, 77),
            ack(5, popped, 2, start=1),
            ack(6, popped, 3),
            ack(7, popped, 3),
        )
        codes = {answer.opaque: answer.code for answer in answers}
        assert [codes[number] for number in (1, 2, 3, 6, 7)] == [0] * 5
        assert {codes[4], codes[5]} == {ResponseCode.NO_MESSAGE}
        assert from_command(AckMessage, ack(1, popped, 0)).offset == 0
        # All but these three are still in flight, so that the rest is what was sent meanwhile.
        (again,) = await ask(address, pop(1))
        assert list(read_message_offsets(again.fields["msgOffsetInfo"]).values()) == [[6]]
