"""Real processes on real files: killed under load, out of room, and with a sync that fails."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpipe import Producer, RocketPipeError
from rocketpipe.clock import SystemClock
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Appended
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.simulation.promises import PromiseBroken, Promises
from rocketpipe.testing.simulation.small_store import HOST, message

HERE = Path(__file__).parent
PROGRAM = HERE / "support" / "appending.py"
KILLS = int(os.environ.get("ROCKETPIPE_KILLS", "20"))
SEGMENT_BYTES = 64 * 1024


def run(
    root: Path,
    flush: FlushMode,
    first: int,
    groups: int = 0,
    environment: dict[str, str] | None = None,
) -> subprocess.Popen:
    environment = {**os.environ, **(environment or {})}
    words = [str(root), flush.name, str(first), str(SEGMENT_BYTES), str(groups)]
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *words],
        stdout=subprocess.PIPE,
        stderr=None if groups == 0 else subprocess.PIPE,
        text=True,
        env=environment,
    )


def reopened(root: Path, flush: FlushMode) -> MessageStore:
    config = StoreConfig.embedded(root, flush=flush)
    return MessageStore.open(
        config, disk=Disk(), clock=SystemClock(), store_host=HOST, threads=False
    )


def note(promises: Promises, lines: list[str]) -> int:
    """Take down what a program said, and give the first number that it did not use.

    A line ``size`` says how large the messages behind it are.
    """
    size: int | None = None
    groups = {}
    following = 0
    for line in lines:
        word, *rest = line.split()
        if word == "size":
            size = int(rest[0])
        elif word == "send":
            number, count = map(int, rest)
            group = [message(each, size) for each in range(number, number + count)]
            groups[number] = promises.sending(group)
            following = number + count
        elif word == "ack":
            number, _, *places = map(int, rest)
            placed = [
                Appended(LogOffset(at), size, QueueOffset(offset), 0)
                for at, size, offset in zip(*[iter(places)] * 3, strict=True)
            ]
            promises.appended(groups[number], placed)
            promises.acked(groups[number])
        elif word == "refused" and rest[-1] == "StoreFull":
            promises.refused(groups[int(rest[0])])
    return following


def check_kills(root: Path, flush: FlushMode, kills: int, mutant: str = "") -> None:
    """Kill a program under load, again and again, and hold each next life to what it said."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    promises = Promises(flush)
    first = 1
    for kill in range(kills):
        process = run(root, flush, first, environment={"APPENDING_MUTANT": mutant})
        lines: list[str] = []
        # A number of lines, not of seconds: the load decides when it dies, not the machine.
        for _ in range(chance.randint(1, 400)):
            line = process.stdout.readline()
            assert line, f"seed {seed}, kill {kill}: it ended by itself"
            lines.append(line)
        process.send_signal(signal.SIGKILL)
        lines += [line for line in process.stdout if line.endswith("\n")]
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        first = note(promises, lines) or first
        store = reopened(root, flush)
        try:
            store.dispatch()
            promises.check(store)
        except AssertionError as error:
            error.add_note(f"seed {seed}, kill {kill}, {flush}")
            raise
        finally:
            store.close()
    assert len(promises.sent) > kills


@pytest.mark.parametrize("flush", FlushMode)
def test_a_killed_broker_loses_nothing_that_it_acknowledged(
    flush: FlushMode, tmp_path: Path
) -> None:
    check_kills(tmp_path, flush, KILLS // 2)


def test_the_check_turns_red_when_acknowledged_messages_are_only_in_memory(tmp_path: Path) -> None:
    with pytest.raises(PromiseBroken, match="lost"):
        check_kills(tmp_path, FlushMode.ASYNC, 5, mutant="late")


@pytest.fixture
def failing_sync(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which a program's syncs can be made to fail."""
    compiler = shutil.which("cc")
    if sys.platform != "linux":
        pytest.skip("LD_PRELOAD and /proc are Linux's")
    if compiler is None:
        pytest.skip("no C compiler: install one (cc) to let a real fdatasync fail")
    built = tmp_path_factory.mktemp("failing") / "failing_sync.so"
    source = HERE / "failing_sync.c"
    command = [compiler, "-shared", "-fPIC", "-O1", str(source), "-o", str(built), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the C compiler cannot build a shared library: {done.stderr.strip()}")
    return {"LD_PRELOAD": str(built)}


def check_sync_error(root: Path, at: int, failing_sync: dict[str, str], mutant: str = "") -> None:
    """Let the ``at``-th sync of the log fail, and look at everything that follows."""
    syncs, store_path = root / "syncs", root / "store"
    environment = {
        **failing_sync,
        "FAILING_SYNC_PATH": f"commitlog/{0:020d}",
        "FAILING_SYNC_AT": str(at),
        "FAILING_SYNC_LOG": str(syncs),
        "APPENDING_MUTANT": mutant,
    }
    # Few enough for one segment, so that every sync of the log is one of this file.
    process = run(store_path, FlushMode.SYNC, 1, groups=60, environment=environment)
    out, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors, errors
    lines = out.splitlines(keepends=True)
    told = syncs.read_text().splitlines()
    assert told.count("failed") == 1
    assert told[-1] == "failed", "synced again after a failure"
    answers = [line.split()[0] for line in lines if line.startswith(("ack", "refused"))]
    assert "refused" in answers
    assert "ack" not in answers[answers.index("refused") :], "acknowledged after a failure"
    assert len(answers) == 60, "somebody was never told"
    assert "StoreFailed" in out
    acknowledged = sum(int(line.split()[2]) for line in lines if line.startswith("ack"))
    assert f"read {acknowledged}\n" in lines, "reads go on, up to what is confirmed"
    promises = Promises(FlushMode.SYNC)
    note(promises, lines)
    store = reopened(store_path, FlushMode.SYNC)
    try:
        store.dispatch()
        promises.check(store)
    finally:
        store.close()


@pytest.mark.parametrize("at", [2, 5, 17])
def test_a_real_sync_error_ends_all_acknowledgements_and_is_never_retried(
    at: int, tmp_path: Path, failing_sync: dict[str, str]
) -> None:
    check_sync_error(tmp_path, at, failing_sync)


@pytest.mark.parametrize("ends", [True, False])
def test_a_server_whose_disk_failed_ends_with_its_code_if_it_is_told_to(
    tmp_path: Path, failing_sync: dict[str, str], *, ends: bool
) -> None:
    settings = tmp_path / "broker.conf"
    settings.write_text(f"exitOnStoreFailure={str(ends).lower()}\n")
    environment = {
        **os.environ,
        **failing_sync,
        "FAILING_SYNC_PATH": f"commitlog/{0:020d}",
        "FAILING_SYNC_AT": "4",
        "FAILING_SYNC_LOG": str(tmp_path / "syncs"),
    }
    command = [sys.executable, "-m", "rocketpipe.cli.main", "serve", "--small-files"]
    command += ["--data", str(tmp_path / "data"), "--flush", "sync", "--config", str(settings)]
    command += ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            ready = next(line for line in server.stdout if line.startswith("ready "))
            names = ready.split("namesrv=")[1].split()[0]
            acknowledged = asyncio.run(_send_until_refused(names))
            if ends:
                assert server.wait(30) == 70
            else:
                assert server.poll() is None
        finally:
            server.terminate()
            _, errors = server.communicate(timeout=30)
    assert ("exit code 70" in errors) is ends
    assert "Traceback" not in errors
    store = MessageStore.open(
        StoreConfig(root=tmp_path / "data", segment_bytes=16 << 20),
        disk=Disk(),
        clock=SystemClock(),
        store_host=HOST,
        threads=False,
    )
    try:
        store.dispatch()
        kept = sum(store.max_offset("orders", queue) for queue in range(8))
        assert kept >= acknowledged > 0
    finally:
        store.close()


async def _send_until_refused(names: str) -> int:
    async with Producer(names) as producer:
        for acknowledged in range(100):
            try:
                await producer.send("orders", b"order", timeout_ms=1000)
            except RocketPipeError:
                return acknowledged
    raise AssertionError("no sync failed")


def test_the_check_turns_red_when_a_failed_sync_is_tried_again(
    tmp_path: Path, failing_sync: dict[str, str]
) -> None:
    with pytest.raises(AssertionError, match="synced again"):
        check_sync_error(tmp_path, 5, failing_sync, mutant="retry")


def test_a_store_without_room_refuses_and_goes_on_once_there_is_some(tmp_path: Path) -> None:
    """RLIMIT_FSIZE: the segment that would be larger than allowed cannot be made."""
    program = f"""
import resource, sys
sys.path.insert(0, {str(PROGRAM.parent)!r})
import appending
from pathlib import Path
from rocketpipe.clock import SystemClock
from rocketpipe.store.config import FlushMode, StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.message_store import MessageStore

config = StoreConfig.embedded(Path(sys.argv[1]), segment_bytes={SEGMENT_BYTES})
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
store = MessageStore.open(
    config, disk=Disk(), clock=SystemClock(), store_host=appending.HOST, threads=False
)
number = 1
def send(count, size):
    global number
    appending.say("size", size)
    for _ in range(count):
        appending.say("send", number, 1)
        appending.append(store, FlushMode.ASYNC, [appending.message(number, size)], number)
        number += 1
# Until the next large message needs a segment of its own; then no file may be so large.
while store.positions.written + 4000 < {SEGMENT_BYTES}:
    send(1, 3000)
resource.setrlimit(resource.RLIMIT_FSIZE, ({SEGMENT_BYTES} // 2, hard))
send(5, 6000)
appending.say("state", store.state.name)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
send(10, 6000)
appending.say("state", store.state.name)
store.dispatch()
store.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines(keepends=True)
    assert [line for line in lines if line.startswith("state")] == [
        "state FULL\n",
        "state RUNNING\n",
    ]
    refused = [line for line in lines if line.startswith("refused")]
    assert refused
    assert all(line.endswith("StoreFull\n") for line in refused)
    assert lines[-2].startswith("ack"), "it went on by itself"
    promises = Promises(FlushMode.ASYNC)
    note(promises, lines)
    promises.closed()
    store = reopened(tmp_path, FlushMode.ASYNC)
    try:
        promises.check(store)
    finally:
        store.close()


def test_a_real_full_file_system_refuses_and_loses_nothing(tmp_path: Path) -> None:
    mounted = tmp_path / "small"
    mounted.mkdir()
    if sys.platform != "linux":
        pytest.skip("mounts a tmpfs, which is Linux's")
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mounted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
    try:
        process = run(mounted / "store", FlushMode.SYNC, 1, groups=1500)
        out, errors = process.communicate(timeout=120)
        assert "Traceback" not in errors, errors
        lines = out.splitlines(keepends=True)
        refused = [line for line in lines if line.startswith("refused")]
        assert refused
        assert {line.split()[-1] for line in refused} == {"StoreFull"}
        promises = Promises(FlushMode.SYNC)
        note(promises, lines)
        command = ["mount", "-o", "remount,size=8m", str(mounted)]
        subprocess.run(command, check=True)
        store = reopened(mounted / "store", FlushMode.SYNC)
        try:
            store.dispatch()
            promises.check(store)
        finally:
            store.close()
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_the_kernel_tells_of_a_file_too_large_without_killing() -> None:
    """What the test above stands on: Python ignores SIGXFSZ."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
