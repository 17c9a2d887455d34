from __future__ import annotations

import pytest

from rocketpipe.errors import CallTimeout, ConnectionLost, RequestRejected
from rocketpipe.protocol.codes import Language
from rocketpipe.protocol.requests.callbacks import CheckTransactionState, NotifyConsumerIdsChanged
from rocketpipe.protocol.requests.running import GetClientOffsets, GetRunningInfo
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.sessions import Session, Sessions
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.streams import TelemetryStream
from rocketpipe.testing import ManualClock


class Silent:
    """A call of a client that takes all and answers nothing."""

    async def write(self, told: object) -> None:
        return None

    address = "127.0.0.1:1"


def visit(sessions: Sessions, user: str = "", client_id: str = "c") -> Session:
    return sessions.visit(user, client_id, "127.0.0.1:1", "", Language.GO)


async def test_a_client_keeps_its_session_and_users_theirs() -> None:
    sessions = Sessions(ProxyConfig(), ManualClock())
    one = visit(sessions)
    assert visit(sessions) is one
    assert visit(sessions, "ann") is not one
    assert len(sessions) == 2
    assert sessions.end(one)
    assert not sessions.end(one)
    assert visit(sessions) is not one


async def test_sessions_are_bounded() -> None:
    sessions = Sessions(ProxyConfig(max_clients=1), ManualClock())
    visit(sessions)
    with pytest.raises(Refused):
        visit(sessions, client_id="another")


async def test_who_is_silent_and_has_no_stream_is_gone() -> None:
    clock = ManualClock()
    sessions = Sessions(ProxyConfig(), clock)
    silent, listening = visit(sessions), visit(sessions, client_id="listens")
    config = ProxyConfig()
    listening.opened(TelemetryStream(Silent(), config, lambda: None))
    await clock.advance(30_001)
    assert sessions.silent() == [silent]
    assert sessions.find(lambda each: each.client_id == "listens") is listening


async def test_without_a_stream_nobody_can_be_asked() -> None:
    session = visit(Sessions(ProxyConfig(), ManualClock()))
    session.tell(NotifyConsumerIdsChanged(consumer_group="g"))  # means nothing to it
    asked = GetRunningInfo(consumer_group="g", client_id="c", jstack_enable=True)
    with pytest.raises(ConnectionLost):
        await session.answer(asked, 10)
    with pytest.raises(RequestRejected):
        await session.answer(GetClientOffsets(topic="t", group="g"), 10)


async def test_who_does_not_answer_is_late() -> None:
    session = visit(Sessions(ProxyConfig(), ManualClock()))
    config = ProxyConfig()
    session.opened(TelemetryStream(Silent(), config, lambda: None))
    asked = GetRunningInfo(consumer_group="g", client_id="c", jstack_enable=True)
    with pytest.raises(CallTimeout):
        await session.answer(asked, 1)
    session.tell(
        CheckTransactionState(tran_state_table_offset=0, commit_log_offset=0, message=b"junk")
    )
