"""How things went, as gRPC clients are told: one table from our errors to their codes.

An error of the service itself is a ``Refused`` and has its code. What brokers say is found by its
response code; what is not listed is INTERNAL_SERVER_ERROR, as RocketMQ's proxy has it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from rocketpipe.errors import (
    CallTimeout,
    ConnectionLost,
    InvalidName,
    NoRoute,
    RequestRejected,
    RocketPipeError,
)
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.remoting.log_budget import LogBudget

log = logging.getLogger(__name__)

#: No message says more: it may quote what it refuses.
MAX_MESSAGE: Final = 1024

_failures = LogBudget()


class Refused(RocketPipeError):
    """A call that is not served as it stands: the code says what is wrong, the text what to do."""

    def __init__(self, code: pb.Code, message: str) -> None:
        super().__init__(message)
        self.code = code


_CODES: Final[Mapping[int, pb.Code]] = {
    ResponseCode.SYSTEM_BUSY: pb.TOO_MANY_REQUESTS,
    ResponseCode.POLLING_FULL: pb.TOO_MANY_REQUESTS,
    ResponseCode.FLOW_CONTROL: pb.TOO_MANY_REQUESTS,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: pb.NOT_IMPLEMENTED,
    ResponseCode.FLUSH_DISK_TIMEOUT: pb.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: pb.HA_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: pb.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.MESSAGE_ILLEGAL: pb.BAD_REQUEST,
    ResponseCode.INVALID_PARAMETER: pb.BAD_REQUEST,
    ResponseCode.ILLEGAL_OPERATION: pb.BAD_REQUEST,
    ResponseCode.VERSION_NOT_SUPPORTED: pb.VERSION_UNSUPPORTED,
    ResponseCode.NO_PERMISSION: pb.FORBIDDEN,
    ResponseCode.TOPIC_NOT_EXIST: pb.TOPIC_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: pb.ILLEGAL_FILTER_EXPRESSION,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: pb.CONSUMER_GROUP_NOT_FOUND,
    ResponseCode.QUERY_NOT_FOUND: pb.OFFSET_NOT_FOUND,
    ResponseCode.NO_MESSAGE: pb.INVALID_RECEIPT_HANDLE,
    ResponseCode.BROKER_NOT_EXIST: pb.BAD_REQUEST,
}


def ok() -> pb.Status:
    """All went well."""
    return pb.Status(code=pb.OK, message="OK")


def status_of(error: BaseException, rpc: str = "") -> pb.Status:
    """What a client is told of an error; what nobody expected goes to the log as well."""
    code, message = _told(error)
    if code is None:
        code, message = pb.INTERNAL_SERVER_ERROR, f"{rpc or 'the call'} failed; the log says why"
        if _failures.allows():
            log.error("gRPC call failed rpc=%s%s", rpc, _failures.suppressed(), exc_info=error)
    return pb.Status(code=code, message=message[:MAX_MESSAGE] or pb.Code.Name(code))


def _told(error: BaseException) -> tuple[pb.Code | None, str]:
    if isinstance(error, Refused):
        return error.code, str(error)
    if isinstance(error, RequestRejected):
        return code_of(error.code), error.remark
    if isinstance(error, (CallTimeout, TimeoutError)):
        return pb.PROXY_TIMEOUT, str(error) or "the broker did not answer in time: try again"
    if isinstance(error, ConnectionLost):
        return pb.INTERNAL_SERVER_ERROR, f"the broker is not there, try again: {error}"
    if isinstance(error, NoRoute):
        return pb.TOPIC_NOT_FOUND, str(error)
    if isinstance(error, InvalidName):
        return pb.BAD_REQUEST, str(error)
    if isinstance(error, RocketPipeError):
        return pb.INTERNAL_SERVER_ERROR, str(error)
    return None, ""


def code_of(response_code: int) -> pb.Code:
    """What a broker's response code is to gRPC clients."""
    if response_code == ResponseCode.SUCCESS:
        return pb.OK
    return _CODES.get(response_code, pb.INTERNAL_SERVER_ERROR)
