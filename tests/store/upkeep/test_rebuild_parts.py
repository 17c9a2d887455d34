"""Queues, index and timer made anew by many who read a segment each."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rocketpipe.store.config import StoreConfig
from rocketpipe.store.derived.prepared import SUFFIX
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.maintenance import rebuild_derived
from rocketpipe.store.upkeep.rebuild_parts import (
    DerivesSegments,
    RebuildPlan,
    derive_segment,
    one_after_the_other,
)
from rocketpipe.testing.clock import ManualClock

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
MESSAGES = 120


def config(root: Path) -> StoreConfig:
    return StoreConfig(
        root=root, segment_bytes=4096, queue_file_bytes=200, index_slots=20, index_entries=80
    )


def put(number: int) -> Put:
    timed = b"TIMER_OUT_MS\x01%d\x02REAL_TOPIC\x01ours\x02" % (1000 * number)
    is_timed = number % 7 == 6
    return Put(
        topic="rmq_sys_wheel_timer" if is_timed else "ours",
        queue_id=0 if is_timed else number % 3,
        body=b"%d" % number,
        properties=b"KEYS\x01k%d\x02TAGS\x01t\x02" % number + (timed if is_timed else b""),
        flag=0,
        sys_flag=0,
        born_ms=number,
        born_host=HOST,
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of some segments, of which the next is there already."""
    root = tmp_path / "store"
    mine = opened(root)
    for number in range(MESSAGES):
        mine.append([[put(number)]])
    mine.flush()
    mine.dispatch()
    mine.close()
    return root


def opened(root: Path) -> MessageStore:
    return MessageStore.open(
        config(root), disk=Disk(), clock=ManualClock(), store_host=HOST, threads=False
    )


def derived(root: Path) -> dict[str, bytes]:
    """Every byte that follows from the log."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for room in ("consumequeue", "index", "timer", "sums")
        for path in (root / room).rglob("*")
        if path.is_file()
    }


def spoiled(how: Callable[[list[Path]], list[Path] | None]) -> DerivesSegments:
    """Parts to which something happens before they are put together."""

    def derives(plan: RebuildPlan, bases: Sequence[int]) -> list[str]:
        names = one_after_the_other(Disk())(plan, bases)
        files = [plan.root / "sums" / name for name in names]
        return [each.name for each in how(files) or files]

    return derives


def flipped(files: list[Path]) -> None:
    data = bytearray(files[1].read_bytes())
    data[len(data) // 2] ^= 1
    files[1].write_bytes(data)


def cut(files: list[Path]) -> None:
    os.truncate(files[2], files[2].stat().st_size - 3)


WAYS: dict[str, DerivesSegments] = {
    "whole": one_after_the_other(Disk()),
    "flipped": spoiled(flipped),
    "cut": spoiled(cut),
    "gone": spoiled(lambda files: files[1].unlink()),
    "in another order": spoiled(lambda files: files[::-1]),
    "one left out": spoiled(lambda files: files[:1] + files[2:]),
    "none": lambda plan, bases: (),
}


@pytest.mark.parametrize("way", WAYS)
def test_parts_make_the_bytes_that_reading_the_log_makes(store: Path, way: str) -> None:
    plain = store.with_name("plain")
    shutil.rmtree(store / "index")
    (store / "consumequeue" / "ours" / "1" / f"{0:020d}").write_bytes(bytes(200))
    shutil.copytree(store, plain)
    count = rebuild_derived(config(plain), Disk(), ManualClock())
    assert count == MESSAGES
    assert rebuild_derived(config(store), Disk(), ManualClock(), WAYS[way]) == count
    assert derived(store) == derived(plain)
    assert check_store(Disk(), store).ok


@pytest.mark.parametrize("name", ["4.9.7-kill", "5.5.0-stop"])
def test_parts_of_apaches_stores_make_the_same_bytes(
    tmp_path: Path, unpack_golden: Callable[..., Path], name: str
) -> None:
    roots = [unpack_golden(name, tmp_path / way) for way in ("plain", "parts")]
    ways = (None, one_after_the_other(Disk()))
    counts = {
        rebuild_derived(replace(config(root), segment_bytes=65536), Disk(), ManualClock(), way)
        for root, way in zip(roots, ways, strict=True)
    }
    assert len(counts) == 1
    assert derived(roots[0]) == derived(roots[1])


def test_a_part_ends_before_what_is_damaged(store: Path) -> None:
    plan = RebuildPlan.of(config(store))
    whole = (store / "sums" / derive_segment(Disk(), plan, 4096)).stat().st_size
    segment = store / "commitlog" / f"{4096:020d}"
    data = bytearray(segment.read_bytes())
    data[2000] ^= 1
    segment.write_bytes(data)
    part = (store / "sums" / derive_segment(Disk(), plan, 4096)).stat().st_size
    assert 0 < part < whole


def test_a_part_that_fails_leaves_everything_as_it_was(store: Path) -> None:
    before = derived(store)

    def derives(plan: RebuildPlan, bases: Sequence[int]) -> list[str]:
        derive_segment(Disk(), plan, bases[0])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild_derived(config(store), Disk(), ManualClock(), derives)
    assert derived(store) == before
    assert not (store / "abort").exists()
    mine = opened(store)
    assert mine.ended_well
    mine.close()


DIES = """
import os, signal, sys
from pathlib import Path
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.upkeep import maintenance
from rocketpipe.store.upkeep.rebuild_parts import one_after_the_other
from rocketpipe.store.derived.dispatcher import Dispatcher
from rocketpipe.testing.clock import ManualClock
from tests.store.upkeep.test_rebuild_parts import config

def die(*given):
    os.kill(os.getpid(), signal.SIGKILL)

def derives(plan, bases):
    names = one_after_the_other(Disk())(plan, bases[:2] if when == "deriving" else bases)
    return die() if when == "deriving" else names

when = sys.argv[2]
if when == "removed":
    maintenance.portions = die
elif when == "joining":
    take, taken = Dispatcher.take, []
    def some(self, prepared):
        taken.append(prepared)
        return die() if len(taken) == 3 else take(self, prepared)
    Dispatcher.take = some
maintenance.rebuild_derived(config(Path(sys.argv[1])), Disk(), ManualClock(), derives)
"""


@pytest.mark.parametrize("when", ["deriving", "removed", "joining"])
def test_a_rebuild_that_is_killed_leaves_a_store_that_opens_with_everything(
    store: Path, when: str
) -> None:
    before = derived(store)
    root = Path(__file__).parents[3]
    died = subprocess.run(
        [sys.executable, "-c", DIES, str(store), when],
        check=False,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert died.returncode == -signal.SIGKILL
    if when == "deriving":  # nothing was touched yet
        now = derived(store)
        assert {name: data for name, data in now.items() if not name.endswith(SUFFIX)} == before
    mine = opened(store)
    assert [mine.max_offset("ours", queue) for queue in range(3)] == [
        sum(n % 3 == queue and n % 7 != 6 for n in range(MESSAGES)) for queue in range(3)
    ]
    mine.close()
    assert not list(store.rglob(f"*{SUFFIX}"))
    assert check_store(Disk(), store).ok
