from __future__ import annotations

import logging

import pytest

from rocketpipe.errors import (
    CallTimeout,
    ConnectionLost,
    InvalidName,
    NoRoute,
    RequestRejected,
    RocketPipeError,
)
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.proxy.status import MAX_MESSAGE, Refused, code_of, ok, status_of
from rocketpipe.proxy.v2 import messaging_pb2 as pb


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(pb.ILLEGAL_TOPIC, "x"), pb.ILLEGAL_TOPIC),
        (RequestRejected(ResponseCode.SYSTEM_BUSY, "x"), pb.TOO_MANY_REQUESTS),
        (RequestRejected(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "x"), pb.NOT_IMPLEMENTED),
        (
            RequestRejected(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "x"),
            pb.CONSUMER_GROUP_NOT_FOUND,
        ),
        (RequestRejected(ResponseCode.TOPIC_NOT_EXIST, "x"), pb.TOPIC_NOT_FOUND),
        (RequestRejected(ResponseCode.NO_PERMISSION, "x"), pb.FORBIDDEN),
        (RequestRejected(ResponseCode.FLUSH_DISK_TIMEOUT, "x"), pb.MASTER_PERSISTENCE_TIMEOUT),
        (RequestRejected(ResponseCode.FLUSH_SLAVE_TIMEOUT, "x"), pb.SLAVE_PERSISTENCE_TIMEOUT),
        (RequestRejected(ResponseCode.SLAVE_NOT_AVAILABLE, "x"), pb.HA_NOT_AVAILABLE),
        (RequestRejected(ResponseCode.SYSTEM_ERROR, "x"), pb.INTERNAL_SERVER_ERROR),
        (RequestRejected(4711, "x"), pb.INTERNAL_SERVER_ERROR),
        (CallTimeout("a:1", "Pop", 5), pb.PROXY_TIMEOUT),
        (ConnectionLost("a:1", "gone"), pb.INTERNAL_SERVER_ERROR),
        (NoRoute("t", "n:1"), pb.TOPIC_NOT_FOUND),
        (InvalidName("topic", "t", "is none"), pb.BAD_REQUEST),
        (RocketPipeError("x"), pb.INTERNAL_SERVER_ERROR),
    ],
)
def test_each_error_has_its_code_and_its_words(error: Exception, code: int) -> None:
    told = status_of(error)
    assert told.code == code
    assert told.message


def test_what_nobody_expected_is_logged_and_not_quoted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        told = status_of(KeyError("secret"), "SendMessage")
    assert told.code == pb.INTERNAL_SERVER_ERROR
    assert "secret" not in told.message
    assert "secret" in caplog.text


def test_words_are_bounded() -> None:
    assert len(status_of(Refused(pb.BAD_REQUEST, "x" * 9000)).message) == MAX_MESSAGE
    assert status_of(Refused(pb.BAD_REQUEST, "")).message == "BAD_REQUEST"


def test_success_is_ok() -> None:
    assert code_of(ResponseCode.SUCCESS) == pb.OK
    assert ok() == pb.Status(code=pb.OK, message="OK")
