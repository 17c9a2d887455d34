from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpipe.errors import BodyError
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.command import ONEWAY
from rocketpipe.protocol.request import from_command, to_command
from rocketpipe.protocol.requests.callbacks import (
    CheckTransactionState,
    NotifyConsumerIdsChanged,
    read_reset,
    write_reset,
)

GOLDEN = {
    body["body"]: body["text"].encode()
    for body in json.loads((Path(__file__).parent / "golden" / "bodies.json").read_text())["bodies"]
}
OFFSETS = {
    MessageQueue(topic="T-a", broker_name="broker-a", queue_id=3): QueueOffset(42),
    MessageQueue(topic="T-b", broker_name="broker-b", queue_id=0): QueueOffset(0),
}


def test_a_change_of_members_is_told_one_way() -> None:
    command = to_command(NotifyConsumerIdsChanged(consumer_group="g"), 1, oneway=True)
    assert command.flag == ONEWAY
    assert command.fields == {"consumerGroup": "g"}


def test_a_check_carries_the_half_message_as_it_is() -> None:
    asked = CheckTransactionState(
        tran_state_table_offset=QueueOffset(1), commit_log_offset=LogOffset(2), message=b"\0\1\2"
    )
    command = to_command(asked, 1)
    assert command.body == b"\0\1\2"
    assert from_command(CheckTransactionState, command) == asked


def test_a_reset_is_a_map_for_java_and_a_list_for_cpp_clients() -> None:
    assert write_reset(OFFSETS) == GOLDEN["ResetOffsetBody"]
    assert write_reset(OFFSETS, as_list=True) == GOLDEN["ResetOffsetBodyForC"]


@pytest.mark.parametrize("form", ["ResetOffsetBody", "ResetOffsetBodyForC"])
def test_a_reset_is_read_in_either_form(form: str) -> None:
    assert read_reset(GOLDEN[form]) == OFFSETS


@pytest.mark.parametrize("body", [b"", b"[]", b'{"offsetTable":5}', b'{"offsetTable":[{}]}'])
def test_a_reset_of_another_form_is_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        read_reset(body)
