"""Processes of a supervisor that was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpipe.cli.cluster import leftovers


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    program = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); "
        "print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_what_was_left_over_is_ended(
    tmp_path: Path, sleeping: subprocess.Popen[bytes], stopped: bool
) -> None:
    leftovers.keep(tmp_path, {"broker-a": sleeping.pid})
    if stopped:
        sleeping.send_signal(signal.SIGSTOP)
    assert leftovers.end(tmp_path) == ["broker-a"]
    assert sleeping.wait() == 3  # in order
    assert leftovers.end(tmp_path) == []


def test_what_does_not_heed_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_PATIENCE_S", 0.2)
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        leftovers.keep(tmp_path, {"broker-a": process.pid})
        leftovers.end(tmp_path)
        assert process.wait() == -signal.SIGKILL


def test_a_process_that_was_given_the_same_id_later_is_left_alone(
    tmp_path: Path, sleeping: subprocess.Popen[bytes]
) -> None:
    leftovers.keep(tmp_path, {"broker-a": sleeping.pid})
    rows = json.loads((tmp_path / leftovers.FILE_NAME).read_text())
    rows["broker-a"][1] += "1"
    (tmp_path / leftovers.FILE_NAME).write_text(json.dumps(rows))
    assert leftovers.end(tmp_path) == []
    assert sleeping.poll() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"broker-a": [1, null]}'])
def test_what_cannot_be_read_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / leftovers.FILE_NAME).write_text(text)
    assert leftovers.end(tmp_path) == []


def test_a_process_that_ended_has_no_beginning() -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        process.wait()
    assert leftovers.began(process.pid) is None
    assert leftovers.began(os.getpid()) is not None


def test_where_there_is_no_proc_the_system_is_asked() -> None:
    assert leftovers._asked(os.getpid())
    assert leftovers._asked(2**22 + 1) is None
