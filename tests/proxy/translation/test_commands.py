from __future__ import annotations

import pytest
from tests.proxy.translation.test_incoming import record

from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.protocol.requests.callbacks import CheckTransactionState, NotifyConsumerIdsChanged
from rocketpipe.protocol.requests.running import ConsumeDirectly, GetClientOffsets, GetRunningInfo
from rocketpipe.proxy.translation.commands import as_resource, question, told
from rocketpipe.proxy.translation.transaction_id import TransactionId
from rocketpipe.proxy.v2 import messaging_pb2 as pb


def test_a_check_is_told_with_where_the_half_message_is() -> None:
    half = record(b"half", UNIQ_KEY="K", TRAN_MSG="true", PGROUP="t")
    command = told(
        CheckTransactionState(
            tran_state_table_offset=QueueOffset(4),
            commit_log_offset=LogOffset(900),
            transaction_id="K",
            broker_name="broker-a",
            message=half.raw,
        ),
        "",
    )
    assert command is not None
    asked = command.recover_orphaned_transaction_command
    assert asked.message.body == b"half"
    assert TransactionId.parse(asked.transaction_id) == TransactionId(
        unique_key="K",
        broker="broker-a",
        queue_offset=QueueOffset(4),
        log_offset=LogOffset(900),
    )


def test_what_means_nothing_to_a_grpc_client_is_no_command() -> None:
    assert told(NotifyConsumerIdsChanged(consumer_group="g"), "") is None
    check = CheckTransactionState(
        tran_state_table_offset=QueueOffset(4), commit_log_offset=LogOffset(9), message=b"junk"
    )
    assert told(check, "") is None


def test_names_are_told_as_the_client_knows_them() -> None:
    assert as_resource("ns%t", "ns") == pb.Resource(resource_namespace="ns", name="t")
    assert as_resource("ns%t", "") == pb.Resource(resource_namespace="ns", name="t")
    assert as_resource("t", "") == pb.Resource(name="t")


def test_only_what_has_an_answer_is_asked() -> None:
    plain = question(GetRunningInfo(consumer_group="g", client_id="c"), None)
    assert plain.command is None
    assert plain.read(None).info.stacks is None
    with pytest.raises(RequestRejected):
        question(GetClientOffsets(topic="t", group="g"), None)
    with pytest.raises(RequestRejected):
        question(ConsumeDirectly(consumer_group="g", message=b"junk"), None)


def test_a_question_has_its_nonce() -> None:
    asked = GetRunningInfo(consumer_group="g", client_id="c", jstack_enable=True)
    command = question(asked, pb.Settings()).with_nonce("7")
    assert command.print_thread_stack_trace_command.nonce == "7"
