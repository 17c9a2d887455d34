"""Whatever staging requests came, a broker that starts anew is where the last one was."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.support.sending_parts import put
from tests.broker.support.staging_parts import EXPIRY_MS, LEDGER_MS, StagingParts

from rocketpipe.broker.features.staging.book import StageBook
from rocketpipe.broker.features.staging.replay import replay
from rocketpipe.broker.features.staging.stages import StageTable
from rocketpipe.broker.features.staging.staging import Staging
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.requests.staging import StageList
from rocketpipe.testing.clock import ManualClock
from rocketpipe.testing.simulation.disk import SimDisk

ROOT = Path("/store")
NAMES = st.sampled_from(["s1", "s2", "s3"])
BATCHES = st.tuples(st.sampled_from(["app", "other"]), st.integers(0, 2))
COUNTS = st.integers(1, 3)

STEPS = st.one_of(
    st.tuples(st.just("stage"), NAMES, BATCHES, st.integers(0, 2)),
    st.tuples(st.just("prepare"), st.dictionaries(NAMES, COUNTS, min_size=1), BATCHES, COUNTS),
    st.tuples(st.just("commit"), st.dictionaries(NAMES, COUNTS), BATCHES, COUNTS),
    st.tuples(st.just("record only"), st.dictionaries(NAMES, COUNTS), BATCHES),
    st.tuples(st.just("give up"), BATCHES, COUNTS),
    st.tuples(st.just("settle"), BATCHES),
    st.tuples(st.just("let go"), BATCHES),
    st.tuples(st.just("time"), st.sampled_from([EXPIRY_MS // 2, EXPIRY_MS + 1, LEDGER_MS + 1])),
    st.tuples(st.just("tend")),
    st.tuples(st.just("grow"), st.integers(500, 3000)),
    st.tuples(st.just("restart")),
)


def opened(disk: SimDisk, clock: ManualClock) -> StagingParts:
    return StagingParts(ROOT, clock, disk=disk, segment_bytes=8192)


def state(staging: Staging) -> dict[str, Any]:
    """All that a broker goes by, but for ages."""
    book = staging.book
    return {
        "stages": {
            name: (stage.batch, dict(stage.parts))
            for name in ("s1", "s2", "s3")
            if (stage := book.stages.get(name)) is not None
        },
        "held": book.stages.held_bytes,
        "open": {
            batch: (dict(each.stages), each.places, each.moved)
            for batch, each in book.commits.items()
        },
        "prepared": {
            batch: [(each.token, dict(each.stages), each.home) for each in book.prepared.of(batch)]
            for batch in book.prepared.batches()
        },
        "ledger": {
            (entry.app, entry.runs, entry.plans, entry.contents) for entry in book.ledger.entries(0)
        },
        "lapsed": list(book.lapsed),
        "needed": book.needed(),
    }


async def do(parts: StagingParts, step: tuple[Any, ...]) -> None:
    match step:
        case ("stage", name, (app, number), part):
            await parts.stage(name, b"x" * 20, application=app, batch=number, part=part)
        case ("prepare", named, batch, token):
            await parts.staging.prepare(batch, named, "home", f"t{token}")
        case ("commit", named, (app, number), token):
            await parts.commit(
                named, app=app, batch=number, plan="p", content="c", token=f"t{token}"
            )
        case ("record only", named, batch):
            parts.staging._record(batch, StageList(stages=named))
        case ("give up", batch, token):
            await parts.staging.outcome(batch, [f"t{token}"])
        case ("settle", batch):
            parts.staging.settle(batch, None)
        case ("let go", batch):
            parts.staging.let_go(batch, ["t1", "t2", "t3"])
        case ("time", time_ms):
            await parts.clock.advance(time_ms)
        case ("tend",):
            await parts.staging.tend()
            parts.store.flush()
            _forget_old_segments(parts)
        case ("grow", size):
            parts.store.append([[put("u", b"x" * size)]])
            parts.visibility.dispatch()


def _forget_old_segments(parts: StagingParts) -> None:
    """As retention would, whatever their age."""
    pin = parts.pins.lowest()
    end = parts.store.positions.durable if pin is None else pin.offset
    parts.store.delete_before(end)


@given(st.lists(STEPS, max_size=40))
@settings(max_examples=150, deadline=None)
def test_a_restart_at_any_point_changes_nothing(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(_run(steps))


async def _run(steps: list[tuple[Any, ...]]) -> None:
    disk, clock = SimDisk(1), ManualClock()
    parts = opened(disk, clock)
    for step in steps:
        if step == ("restart",):
            before = state(parts.staging)
            disk.crash("everything")
            parts = opened(disk, clock)
            assert state(parts.staging) == before
        else:
            with suppress(RequestRejected):
                await do(parts, step)
    before = state(parts.staging)
    disk.crash("everything")
    assert state(opened(disk, clock).staging) == before


async def test_a_damaged_record_is_passed_over_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = StagingParts(tmp_path, ManualClock())
    await parts.stage("s1", b"a" * 50)
    await parts.stage("s2", b"b" * 50)
    parts.store.flush()
    [log_file] = (tmp_path / "commitlog").iterdir()
    with log_file.open("r+b") as file:
        at = file.read(4096).index(b"a" * 50)
        file.seek(at)
        file.write(b"b")
    book = StageBook(StageTable(1 << 20))
    replay(parts.store, book, 0)
    assert book.stages.get("s1") is None
    assert book.stages.get("s2") is not None
    assert "is damaged, and passed over" in caplog.text
