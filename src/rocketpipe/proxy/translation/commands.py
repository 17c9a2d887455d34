"""What brokers ask of clients, as commands of the telemetry stream; and what clients answer.

CheckTransactionState    recover_orphaned_transaction_command; EndTransaction is the answer
GetRunningInfo           print_thread_stack_trace_command, if stacks are asked for
ConsumeDirectly          verify_message_command
anything else            nothing that a gRPC client knows
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from rocketpipe.errors import RecordError, RequestRejected
from rocketpipe.model import properties as well_known
from rocketpipe.model.names import namespace_of, without_namespace
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.callbacks import CheckTransactionState
from rocketpipe.protocol.requests.running import (
    ConsumeDirectly,
    ConsumeDirectlyReply,
    DirectOutcome,
    DirectResult,
    GetRunningInfo,
    RunningInfo,
    RunningInfoReply,
)
from rocketpipe.proxy.translation.incoming import stored
from rocketpipe.proxy.translation.transaction_id import TransactionId
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.record.codec import RecordView

ReplyT = TypeVar("ReplyT")

#: So much of a client's stacks is passed on.
MAX_STACKS: Final = 1024 * 1024

_OUTCOMES: Final = {
    pb.OK: DirectOutcome.CR_SUCCESS,
    pb.FAILED_TO_CONSUME_MESSAGE: DirectOutcome.CR_LATER,
    pb.MESSAGE_CORRUPTED: DirectOutcome.CR_RETURN_NULL,
}


def told(request: Request[Any], namespace: str) -> pb.TelemetryCommand | None:
    """The command for what is told one way; None if it means nothing to a gRPC client."""
    if not isinstance(request, CheckTransactionState):
        return None
    try:
        record = RecordView(request.message)
        topic = record.properties.get(well_known.REAL_TOPIC) or record.topic
        message = stored(record, as_resource(topic, namespace))
    except RecordError:
        return None
    message.system_properties.message_type = pb.TRANSACTION
    place = TransactionId(
        unique_key=request.transaction_id or message.system_properties.message_id,
        broker=request.broker_name or "",
        queue_offset=request.tran_state_table_offset,
        log_offset=request.commit_log_offset,
    )
    return pb.TelemetryCommand(
        status=pb.Status(code=pb.OK, message="OK"),
        recover_orphaned_transaction_command=pb.RecoverOrphanedTransactionCommand(
            message=message, transaction_id=str(place)
        ),
    )


def as_resource(name: str, namespace: str) -> pb.Resource:
    """A broker's name as a client of this namespace knows it."""
    inside = namespace or namespace_of(name)
    return pb.Resource(resource_namespace=inside, name=without_namespace(name, inside))


@dataclass(frozen=True, slots=True)
class Question(Generic[ReplyT]):
    """What a client is asked, and how its answer is read."""

    #: None if what is known here is answer enough.
    command: pb.TelemetryCommand | None
    read: Callable[[pb.TelemetryCommand | None], ReplyT]

    def with_nonce(self, nonce: str) -> pb.TelemetryCommand:
        """The command under a number by which its answer is known."""
        assert self.command is not None
        which = self.command.WhichOneof("command")
        getattr(self.command, which).nonce = nonce
        return self.command


def question(request: Request[ReplyT], settings: pb.Settings | None) -> Question[ReplyT]:
    """What to ask a client.

    Raises:
        RequestRejected: gRPC clients cannot be asked this.
    """
    if isinstance(request, GetRunningInfo):
        asked = _running_info(request, settings)
    elif isinstance(request, ConsumeDirectly):
        asked = _consume_directly(request)
    else:
        raise RequestRejected(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            f"a gRPC client cannot be asked {type(request).__name__}",
        )
    return cast("Question[ReplyT]", asked)


def _running_info(request: GetRunningInfo, settings: pb.Settings | None) -> Question[Any]:
    known: dict[str, str] = {}
    if settings is not None:
        agent = settings.user_agent
        known = {
            "PROP_CLIENT_VERSION": agent.version,
            "language": pb.Language.Name(agent.language),
            "platform": agent.platform[:255],
            "hostname": agent.hostname[:255],
        }
    command = None
    if request.jstack_enable:
        command = pb.TelemetryCommand(
            print_thread_stack_trace_command=pb.PrintThreadStackTraceCommand()
        )

    def read(answer: pb.TelemetryCommand | None) -> RunningInfoReply:
        stacks = None
        if answer is not None:
            stacks = answer.thread_stack_trace.thread_stack_trace[:MAX_STACKS]
        return RunningInfoReply(info=RunningInfo(properties=known, stacks=stacks))

    return Question(command, read)


def _consume_directly(request: ConsumeDirectly) -> Question[Any]:
    try:
        record = RecordView(request.message)
        message = stored(record, as_resource(request.topic or record.topic, ""))
    except RecordError as error:
        raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
    command = pb.TelemetryCommand(verify_message_command=pb.VerifyMessageCommand(message=message))

    def read(answer: pb.TelemetryCommand | None) -> ConsumeDirectlyReply:
        assert answer is not None
        code, said = answer.status.code, answer.status.message
        outcome = _OUTCOMES.get(code, DirectOutcome.CR_THROW_EXCEPTION)
        remark = said or pb.Code.Name(code) if code in pb.Code.values() else said
        return ConsumeDirectlyReply(result=DirectResult(outcome=outcome, remark=remark[:1024]))

    return Question(command, read)
