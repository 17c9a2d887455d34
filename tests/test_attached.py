"""A program that ends with whoever started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.cluster.support.running import is_alive, wait_for_end, wait_until

from rocketpipe import attached

# A parent that starts a child as `Child` does, says its id, and is then killed. Where the system
# does not help, as on macOS, the child has a watcher: it is made to believe that here too.
PARENT = """
import os, subprocess, sys
reading, writing = os.pipe()
child = subprocess.Popen(
    [sys.executable, "-I", "-S", "-c", sys.argv[1], str(os.getpid()), str(reading), *sys.argv[2:]],
    pass_fds=[reading], start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
child.wait()
"""
PLAIN = Path(attached.__file__).read_text()
WITHOUT_HELP = PLAIN.replace('sys.platform.startswith("linux")', "False")


@pytest.mark.parametrize("program", [PLAIN, WITHOUT_HELP], ids=["as it is", "with a watcher"])
@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_child_does_not_outlive_its_parent(program: str, stopped: bool) -> None:
    assert WITHOUT_HELP != PLAIN
    sleeping = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, program, *sleeping], stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_until(lambda: b"time.sleep" in Path(f"/proc/{child}/cmdline").read_bytes())
        wait_until(lambda: b"PARENT" not in Path(f"/proc/{child}/cmdline").read_bytes())
        if stopped:
            os.kill(child, signal.SIGSTOP)
        assert is_alive(child)
        parent.kill()
    wait_for_end([child])


def test_a_child_keeps_its_id_and_gets_its_words() -> None:
    reading, writing = os.pipe()
    try:
        said = subprocess.run(
            [
                *(sys.executable, "-I", "-S", attached.__file__, str(os.getpid()), str(reading)),
                *("/bin/sh", "-c", 'echo $$ "$1"; ls /dev/fd/$2 2>&1 >/dev/null | wc -l', "sh"),
                *("two words", str(reading)),
            ],
            pass_fds=[reading],
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        os.close(reading)
        os.close(writing)
    (process, *words), (errors,) = (line.split() for line in said.stdout.splitlines())
    assert process.isdigit()
    assert words == ["two", "words"]
    assert errors == "1"  # the pipe is not the program's business


def test_a_child_whose_parent_died_meanwhile_does_not_begin() -> None:
    reading, writing = os.pipe()
    try:
        said = subprocess.run(
            [
                sys.executable,
                "-I",
                "-S",
                attached.__file__,
                "1",
                str(reading),
                "/bin/echo",
                "begun",
            ],
            pass_fds=[reading],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert (said.returncode, said.stdout) == (1, "")
