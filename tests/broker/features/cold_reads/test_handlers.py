"""Limits are set as RocketMQ's tools send them, all or none, and shown as they read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.broker.support.sending_parts import SendingParts

from rocketpipe.broker.delivery.cold_reads import ColdReads
from rocketpipe.broker.features.cold_reads.handlers import ColdReadHandlers
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import GetColdReads, LimitColdReads, UnlimitColdReads
from rocketpipe.testing.clock import ManualClock

CALL = cast("Any", SimpleNamespace(peer=SimpleNamespace(address="127.0.0.1:1")))


@pytest.fixture
def handlers(tmp_path: Path) -> Iterator[ColdReadHandlers]:
    parts = SendingParts(tmp_path, ManualClock())
    yield ColdReadHandlers(ColdReads(parts.config, parts.store, parts.clock))
    parts.abandon()


async def limits(handlers: ColdReadHandlers) -> dict[str, int]:
    told = json.loads((await handlers.show(GetColdReads(), CALL)).info)
    found: dict[str, int] = told["configTable"]
    return found


async def test_limits_are_set_shown_and_taken_away(handlers: ColdReadHandlers) -> None:
    await handlers.limit(LimitColdReads(limits=b"billing=4096\naudit=1\n"), CALL)
    assert await limits(handlers) == {"billing": 4096, "audit": 1}
    await handlers.unlimit(UnlimitColdReads(group=b"audit"), CALL)
    await handlers.unlimit(UnlimitColdReads(group=b"nobody"), CALL)
    assert await limits(handlers) == {"billing": 4096}


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        (b"billing=4096\naudit=much", "audit cannot have 'much' bytes"),
        (b"billing=-1", "give a whole number"),
        (b"bad*name=1", "bad\\*name"),
    ],
)
async def test_one_that_is_wrong_makes_all_of_them_wrong(
    handlers: ColdReadHandlers, text: bytes, remark: str
) -> None:
    with pytest.raises(RequestRejected, match=remark) as refused:
        await handlers.limit(LimitColdReads(limits=text), CALL)
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert await limits(handlers) == {}
