"""How a broker stands that nobody has told anything."""

from rocketpipe.broker.replication.standing import STORED, Standing
from rocketpipe.protocol.codes import ResponseCode


def test_without_replicas_nobody_is_asked_and_nothing_refused() -> None:
    standing = Standing()
    assert standing.followers is None
    assert standing.refusal is None
    standing.check_replicas()


def test_what_is_stored_is_known_by_its_code() -> None:
    assert {0, 10, 11, 12} == STORED
    assert ResponseCode.SYSTEM_ERROR not in STORED
    assert ResponseCode.SERVICE_NOT_AVAILABLE not in STORED
