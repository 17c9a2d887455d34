"""Commands that change users and rights, and servers that set up security, killed over any write.

A process is killed when the files of its directory have changed for the n-th time, by chance and a
moment later. Whatever is left is whole; what was told is so; who could come in before still can.
``ROCKETPIPE_KILLS`` says how often.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.test_secure_serve import served
from tests.waiting import PATIENCE_S

from rocketpipe.auth.policy import Action, Kind, Wanted, decide
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserType
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.blocking import Admin, Session
from rocketpipe.client.credentials import credentials_of
from rocketpipe.remoting.tls_settings import TlsSettings
from rocketpipe.store.files.disk import Disk

KILLS = max(1, int(os.environ.get("ROCKETPIPE_KILLS", "20")) // 20)
COMMAND = [sys.executable, "-m", "rocketpipe.cli.main"]
ROOT = Secret("the-secret-of-root")


def kill_at(
    process: subprocess.Popen[str],
    directory: Path,
    change: int,
    is_done: Callable[[], object] = lambda: False,
) -> None:
    """Kill a process when what lies in a directory has changed so often, or when it is done."""
    seen, deadline = _files(directory), time.monotonic() + PATIENCE_S
    while process.poll() is None and not is_done():
        assert time.monotonic() < deadline, "it does not end"
        now = _files(directory)
        if now != seen:
            seen, change = now, change - 1
            if change <= 0:
                break
    process.send_signal(signal.SIGKILL)


def _files(directory: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in (directory, *directory.rglob("*")):
        try:
            about = path.stat()
        except FileNotFoundError:
            continue
        found[str(path)] = (about.st_ino, about.st_size)
    return found


def said(directory: Path, change: int, *words: str) -> dict[str, Any] | None:
    """Say a command that is killed; gives what it told before that."""
    command = [*COMMAND, *words, "--data", str(directory), "-o", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        kill_at(process, directory, change)
        out, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, -signal.SIGKILL), error
    try:
        told: dict[str, Any] = json.loads(out)
    except json.JSONDecodeError:
        return None  # killed before it said a word, or in the middle of it
    return told


def valid(directory: Path, name: str) -> list[str]:
    user = UserTable.opened(Disk(), directory).get(name)
    now_ms = int(time.time() * 1000)
    return [] if user is None else [secret.reveal() for secret in user.secrets_at(now_ms)]


@pytest.fixture
def users(tmp_path: Path) -> Path:
    UserTable.opened(Disk(), tmp_path).put_all(
        [User(name="root", secret=ROOT, type=UserType.SUPER)]
    )
    return tmp_path


def test_a_user_whose_secret_was_told_is_there_with_it(users: Path) -> None:
    chance, known = random.Random(20), {"root": ROOT.reveal()}
    for number in range(KILLS):
        name = f"user-{number}"
        told = said(users, chance.randrange(1, 6), "user", "create", name)
        if told is not None:
            known[name] = told["secret"]
        for each, secret in known.items():
            assert valid(users, each) == [secret], each
        if told is None and not valid(users, name):
            again = said(users, 1000, "user", "create", name)
            assert again is not None
            known[name] = again["secret"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in users.glob("*.json*"))


def test_a_rotated_user_is_let_in_by_the_secret_that_it_had_and_the_one_that_was_told(
    users: Path,
) -> None:
    chance = random.Random(21)
    for _ in range(KILLS):
        before = valid(users, "root")[0]
        told = said(users, chance.randrange(1, 6), "user", "rotate", "root")
        now = valid(users, "root")
        assert before in now
        if told is not None:
            assert now[0] == told["secret"]


def test_rights_are_those_of_before_or_those_that_were_granted(users: Path) -> None:
    chance, granted = random.Random(22), set[str]()
    users_of = UserTable.opened(Disk(), users)
    users_of.put(User(name="app", secret=Secret("the-secret-of-app-1")))
    for number in range(KILLS):
        topic = f"topic-{number}"
        told = said(
            users,
            chance.randrange(1, 6),
            "acl",
            "grant",
            "app",
            "--topic",
            topic,
            "--actions",
            "pub",
        )
        policy = PolicyTable.opened(Disk(), users).get("User:app")
        may = {
            each
            for each in (f"topic-{at}" for at in range(KILLS))
            if decide(policy, Wanted(Kind.TOPIC, each, frozenset({Action.PUB})), "").allowed
        }
        assert granted <= may <= granted | {topic}
        if told is not None:
            assert topic in may
        granted = may


@pytest.mark.soak
def test_a_secure_server_starts_right_whatever_it_was_killed_over(tmp_path: Path) -> None:
    """As often as it takes, in one directory: each time it goes on from what is there."""
    chance, data = random.Random(23), tmp_path / "data"
    data.mkdir(mode=0o700)
    command = [*COMMAND, "serve", "--secure", "--data", str(data), "--small-files"]
    command += ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0", "-o", "json"]
    banner = tmp_path / "banner"
    for number in range(8 * KILLS):
        if number % 4 == 3:  # from nothing again, where most is written
            shutil.rmtree(data)
            data.mkdir(mode=0o700)
        with (
            (tmp_path / "killed.log").open("ab") as log,
            banner.open("wb") as out,
            subprocess.Popen(command, stdout=out, stderr=log, text=True) as process,
        ):
            kill_at(process, data, chance.randrange(1, 40), lambda: banner.stat().st_size)
        assert process.returncode == -signal.SIGKILL, (tmp_path / "killed.log").read_text()[-2000:]
    with served(tmp_path) as running:
        by, tls = running.environment, TlsSettings.of(None, running.environment)
        who = credentials_of(environment=by)
        assert who is not None
        with (
            Session(
                running.told["namesrv"],
                access_key=who.access_key,
                secret_key=who.secret,
                tls=tls or False,
            ) as session,
            Admin(session) as admin,
        ):
            admin.topics.create("orders")
            assert {"admin"} <= {user.name for user in admin.users.all()}
        for path in (data / "secure").iterdir():
            assert path.suffix == ".pem" or path.stat().st_mode & 0o077 == 0, path
