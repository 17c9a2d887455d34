"""Stores looked through by Spark."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketpipe.broker.config.offline import offline_store
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError
from rocketpipe.jobs.running import JobRun
from rocketpipe.jobs.store_check import stores
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.maintenance import rebuild_derived

RunJob = Callable[..., JobRun]


def test_a_directory_without_a_log_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no directory 'commitlog'"):
        stores(tmp_path)


@pytest.mark.spark
def test_spark_finds_what_one_process_finds_and_makes_queues_anew(
    run_job: RunJob,
    tmp_path: Path,
    unpack_golden: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = unpack_golden("5.5.0-stop", tmp_path)
    queue = store / "consumequeue" / "orders" / "2" / f"{0:020d}"
    content = bytearray(queue.read_bytes())
    content[20 * 7 + 3] = 0x55
    content[20 * 9 : 20 * 10] = bytes(20)
    queue.write_bytes(content)
    found = run_job("store-check", store=str(store))
    whole = check_store(Disk(), store)
    assert not found.ok
    (told,) = found.outcome.tables["stores"].to_pylist()
    assert (told["records"], told["index_entries"]) == (whole.records, whole.index_entries)
    assert told["segments"] > 1
    assert {
        (row["finding"], row["file"], row["at"], row["detail"])
        for row in found.outcome.tables["findings"].to_pylist()
    } == {(each.kind.value, str(each.file), each.at, each.detail) for each in whole.findings}
    plain, tagged = tmp_path / "plain", tmp_path / "tagged"
    for copy in (plain, tagged):
        shutil.copytree(store, copy)
    rebuild_derived(offline_store(plain), Disk(), SystemClock())
    monkeypatch.setenv("ROCKETPIPE_INDEX_TAGS", "true")  # as its broker is told
    rebuild_derived(offline_store(tagged), Disk(), SystemClock())
    assert derived(tagged) != derived(plain)
    mended = run_job("store-check", store=str(store), rebuild=True)
    assert mended.ok
    assert mended.outcome.headline.endswith("nothing is wrong; queues and index were made anew")
    assert check_store(Disk(), store).ok
    assert derived(store) == derived(tagged)
    assert not list(store.rglob("*.part"))


def derived(store: Path) -> dict[str, str]:
    """What follows from the log, by the sums of its bytes; index files are called by the time."""
    found = {}
    for room in ("consumequeue", "index"):
        files = sorted(path for path in (store / room).rglob("*") if path.is_file())
        for number, path in enumerate(files):
            name = path.relative_to(store) if room == "consumequeue" else f"index {number}"
            with path.open("rb") as file:
                found[str(name)] = hashlib.file_digest(file, "sha1").hexdigest()
    return found
