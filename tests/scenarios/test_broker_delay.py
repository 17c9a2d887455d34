"""Delayed messages outlive the broker that took them, however it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenarios.support.raw_broker import driven_broker
from tests.scenarios.support.sending_wire import sent, shown

from rocketpipe.model.names import SCHEDULE_TOPIC
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.servers import serving

pytestmark = pytest.mark.scenario


async def test_each_level_shows_when_it_is_over_and_keeps_what_it_was_sent_with(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with driven_broker(tmp_path, clock=clock) as driver, Caller() as caller:
        for level in (3, 1, 2):
            text = f"UNIQ_KEY\x01K{level}\x02DELAY\x01{level}"
            reply = await caller.call(driver.address, sent(body=b"%d" % level, properties=text))
            assert (reply.queue_id, reply.queue_offset) == (0, 0)
        assert await shown(caller, driver.address) == []
        await clock.advance(10_000)
        stored = await shown(caller, driver.address, least=3)
        assert [message.body for message in stored] == [b"1", b"2", b"3"]
        for message in stored:
            level = message.body.decode()
            assert message.properties["DELAY"] == level
            assert message.properties["REAL_TOPIC"] == "t"
            assert message.properties["REAL_QID"] == "0"
            assert message.properties["UNIQ_KEY"] == f"K{level}"


async def test_a_stop_in_between_costs_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    async with driven_broker(tmp_path, clock=clock) as driver, Caller() as caller:
        for body in (b"before", b"behind"):
            await caller.call(driver.address, sent(body=body, properties="DELAY\x011"))
            await clock.advance(600)
        assert len(await shown(caller, driver.address, least=1)) == 1
    await clock.advance(60_000)
    async with driven_broker(tmp_path, clock=clock) as driver, Caller() as caller:
        await clock.advance(100)
        stored = await shown(caller, driver.address, least=2)
        assert [message.body for message in stored] == [b"before", b"behind"]


async def test_a_killed_broker_delivers_everything_once_it_is_back(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("messageDelayLevel=1s 2s 3s 3s\n")
    arguments = ["-c", str(conf)]
    count = 60
    async with Caller() as caller:
        with serving(tmp_path, arguments) as servers:
            address = servers.broker
            for number in range(count):
                body = b"delayed %d" % number
                text = f"UNIQ_KEY\x01D{number}\x02DELAY\x01{number % 3 + 1}"
                await caller.call(address, sent("later", body, properties=text))
                await caller.call(address, sent(body=b"failed %d" % number))
            for message in await shown(caller, address, least=count):
                await caller.call(
                    address,
                    SendMessageBack(offset=message.log_offset, group="g", delay_level=0),
                )
            # Some are delivered by now, the others wait.
            delivered = await shown(caller, address, "later", least=count // 3)
            servers.process.kill()
            servers.process.wait()
        assert count // 3 <= len(delivered)
        with serving(tmp_path, arguments) as servers:
            address = servers.broker
            later = await shown(caller, address, "later", least=count)
            again = await shown(caller, address, "%RETRY%g", least=count)
            waiting = await shown(caller, address, SCHEDULE_TOPIC)
    wanted = sorted(b"delayed %d" % number for number in range(count))
    assert sorted(message.body for message in later) == wanted
    wanted = sorted(b"failed %d" % number for number in range(count))
    assert sorted(message.body for message in again) == wanted
    assert {message.reconsume_times for message in again} == {1}
    assert len(waiting) == count // 3  # level 1 alone: nothing was parked twice
