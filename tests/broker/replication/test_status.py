"""How a broker stands in its group."""

from __future__ import annotations

from tests.broker.support.group_status import following, leading

from rocketpipe.broker.replication.status import GroupView, alone
from rocketpipe.model.offsets import LogOffset
from rocketpipe.store.config import FlushMode
from rocketpipe.store.state.positions import Positions


def test_a_broker_without_replicas_leads_itself() -> None:
    positions = Positions(FlushMode.ASYNC)
    positions.written = LogOffset(10)
    view = GroupView(lambda: alone(positions, "h:1"))
    status = view.status()
    assert status.leads
    assert (status.log_end, status.confirmed, status.in_sync) == (10, 10, {0})
    assert status.leader is not None
    assert status.leader.address == "h:1"
    assert status.epochs is None
    assert view.resign is None
    positions.written = LogOffset(20)
    assert view.status().log_end == 20


def test_only_who_leads_takes_sends() -> None:
    assert leading().leads
    assert not leading(role="promoting").leads
    assert not following().leads
