"""How a broker fares, in RocketMQ's words, on a clock that is turned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.live import LiveSettings
from rocketpipe.broker.delivery.long_poll import WaitingPulls
from rocketpipe.broker.features.administration.runtime_info import RuntimeInfo
from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.stats import Stats
from rocketpipe.broker.tables.delays import DelayTable
from rocketpipe.model.names import SCHEDULE_TOPIC
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.retention import Pins, Retention
from rocketpipe.testing.clock import ManualClock

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
START_MS = 1_700_000_000_000


class Parts:
    def __init__(self, root: Path) -> None:
        self.clock = ManualClock(START_MS)
        self.store = MessageStore.open(
            StoreConfig.embedded(root),
            disk=Disk(),
            clock=self.clock,
            store_host=HOST,
            threads=False,
        )
        self.stats = Stats(self.clock)
        self.delays = DelayTable()
        settings = LiveSettings(BrokerConfig(data=root), self.store.config, self.clock)
        retention = Retention(self.store, disk=Disk(), clock=self.clock, pins=Pins())
        self.leads = True
        self._info = RuntimeInfo(
            self.store,
            retention,
            self.stats,
            settings,
            self.clock,
            lambda: self.leads,
            {"unfinishedPops": lambda: 3},
        )
        self._visibility = Visibility(self.store, self.clock)
        self._waiting = WaitingPulls(self.clock)

    def values(self) -> dict[str, str]:
        return self._info.values(self._visibility, self._waiting, self.delays)

    def put(self, topic: str, queue_id: int = 0) -> None:
        put = Put(
            topic=topic,
            queue_id=queue_id,
            body=b"x",
            properties=b"",
            flag=0,
            sys_flag=0,
            born_ms=1,
            born_host=HOST,
        )
        ((placed,),) = self.store.append([[put]])
        self.stats.put(topic, 1, placed.size)
        self.store.dispatch()


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.store.close()


async def test_a_fresh_broker_has_nothing_and_says_so(parts: Parts) -> None:
    values = parts.values()
    assert values["putTps"] == "0.0 0.0 0.0"
    assert values["putMessageAverageSize"] == "0.0"
    assert values["earliestMessageTimeStamp"] == str(START_MS)
    assert values["runtime"] == "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"
    assert values["commitLogMaxOffset"] == "0"


async def test_only_who_leads_is_active(parts: Parts) -> None:
    assert parts.values()["brokerActive"] == "true"
    parts.leads = False
    assert parts.values()["brokerActive"] == "false"


async def test_rates_have_three_windows_and_fade(parts: Parts) -> None:
    for _ in range(60):
        parts.put("t")
    await parts.clock.advance(10_000)
    ten, sixty, all_of_it = map(float, parts.values()["putTps"].split())
    assert ten == sixty == all_of_it == pytest.approx(6.0)
    await parts.clock.advance(50_000)
    ten, sixty, _ = map(float, parts.values()["putTps"].split())
    assert ten == 0
    assert sixty == pytest.approx(1.0)


async def test_how_long_it_runs_is_told_in_words(parts: Parts) -> None:
    await parts.clock.advance(((26 * 60) + 3) * 60_000 + 4000)
    assert parts.values()["runtime"] == "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"


async def test_delay_levels_show_how_far_they_read_and_how_far_they_go(parts: Parts) -> None:
    parts.put(SCHEDULE_TOPIC, 2)
    parts.put(SCHEDULE_TOPIC, 2)
    parts.delays.advance(3, QueueOffset(1))
    assert parts.values()["scheduleMessageOffset_3"] == "1,2"


async def test_the_log_and_its_disk_are_measured(parts: Parts) -> None:
    parts.put("t")
    values = parts.values()
    assert int(values["commitLogMaxOffset"]) == parts.store.positions.written > 0
    assert 0 < float(values["commitLogDiskRatio"]) <= 1
    assert values["earliestMessageTimeStamp"] == str(START_MS)
    assert values["commitLogDirCapacity"].startswith("Total : ")
    assert values["remainHowManyDataToFlush"].endswith(" B")
    parts.store.flush()
    assert parts.values()["remainHowManyDataToFlush"] == "0 B"


def test_what_features_have_begun_is_counted_by_name(parts: Parts) -> None:
    assert parts.values()["unfinishedPops"] == "3"
