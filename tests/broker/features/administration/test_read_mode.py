"""What an operator says of reading ahead reaches every file of the log, the next ones too."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.support.sending_parts import SendingParts, put

from rocketpipe.broker.features.administration.brokers import ReadModeHandlers
from rocketpipe.broker.features.administration.read_mode import EVERY_MS, ReadMode
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.requests.brokers import SetLogReadMode
from rocketpipe.testing.clock import ManualClock

Told = list[tuple[str, int]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What the system was told, by the name of the file: it is told for real all the same."""
    heard: Told = []
    advise = os.posix_fadvise

    def noting(fd: int, offset: int, length: int, advice: int, /) -> None:
        advise(fd, offset, length, advice)
        heard.append((Path(f"/proc/self/fd/{fd}").readlink().name, advice))

    monkeypatch.setattr(os, "posix_fadvise", noting)
    return heard


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[SendingParts]:
    parts = SendingParts(tmp_path, ManualClock(), segment_bytes=65536)
    yield parts
    parts.abandon()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to name files")
async def test_every_file_is_told_and_so_are_the_next_ones(parts: SendingParts, told: Told) -> None:
    await parts.intake.put([put(body=bytes(40_000))])
    mode = ReadMode(parts.store.commit_log, parts.clock)
    keeping = asyncio.create_task(mode.keep_told())
    await asyncio.sleep(0)
    names = {segment.path.name for segment in parts.store.commit_log.run.segments}
    assert mode.set(random=True) == len(names)
    assert set(told) == {(name, os.POSIX_FADV_RANDOM) for name in names}
    told.clear()
    await parts.intake.put([put(body=bytes(40_000))])
    await parts.clock.advance(EVERY_MS)
    fresh = {segment.path.name for segment in parts.store.commit_log.run.segments} - names
    assert fresh
    assert set(told) == {(name, os.POSIX_FADV_RANDOM) for name in fresh}
    told.clear()
    mode.set(random=False)
    assert set(told) == {(name, os.POSIX_FADV_NORMAL) for name in names | fresh}
    keeping.cancel()


async def test_what_is_no_mode_or_cannot_be_had_is_refused(
    parts: SendingParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = ReadModeHandlers(ReadMode(parts.store.commit_log, parts.clock))
    with pytest.raises(RequestRejected, match="0 reads ahead, 1 does not") as refused:
        await handlers.set_mode(SetLogReadMode(mode=2), None)  # type: ignore[arg-type]
    assert refused.value.code == 29
    monkeypatch.delattr(os, "posix_fadvise")
    with pytest.raises(RequestRejected, match="no posix_fadvise"):
        await handlers.set_mode(SetLogReadMode(mode=1), None)  # type: ignore[arg-type]
