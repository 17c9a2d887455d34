from __future__ import annotations

from typing import Any, cast

import pytest

from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import Language
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.calls import Entrance
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.sessions import Sessions
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.testing import ManualClock


class Context:
    address = "10.0.0.9:5"

    def __init__(self, left_s: float | None = None, **headers: Any) -> None:
        self.metadata = {name.replace("_", "-"): value for name, value in headers.items()}
        self._left_s = left_s

    def time_remaining(self) -> float | None:
        return self._left_s


class Guarded:
    """A backend that lets in who says please."""

    def admit(self, metadata: dict[str, str], address: str, rpc: str) -> None:
        if metadata.get("please") != "yes":
            raise RequestRejected(16, f"{rpc} from {address}: say please")


@pytest.fixture
def entrance() -> Entrance:
    sessions = Sessions(ProxyConfig(), ManualClock())
    return Entrance(cast("Backend", Guarded()), sessions)


async def test_a_call_says_who_it_is(entrance: Entrance) -> None:
    call = entrance.enter(
        Context(
            2.5,
            x_mq_client_id="me",
            x_mq_namespace="ns",
            x_mq_language="golang",
            x_mq_client_version="5.0.7",
            please="yes",
        ),
        "QueryRoute",
    )
    session = call.session
    assert (session.client_id, session.address, session.language) == (
        "me",
        "10.0.0.9:5",
        Language.GO,
    )
    assert (call.namespace, call.version, call.remaining_ms) == ("ns", "5.0.7", 2500)


async def test_a_language_that_is_unknown_is_another(entrance: Entrance) -> None:
    call = entrance.enter(Context(x_mq_client_id="me", x_mq_language="COBOL", please="yes"), "x")
    assert call.session.language is Language.OTHER
    assert call.remaining_ms is None


async def test_who_is_not_let_in_is_unauthorized(entrance: Entrance) -> None:
    with pytest.raises(Refused) as refused:
        entrance.enter(Context(x_mq_client_id="me"), "SendMessage")
    assert refused.value.code == pb.UNAUTHORIZED
    assert "say please" in str(refused.value)
