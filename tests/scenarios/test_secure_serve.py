"""`rocketpipe serve --secure` in processes of its own: one broker, several, killed and started."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.blocking import Admin, Producer, Session
from rocketpipe.client.credentials import credentials_of
from rocketpipe.errors import RocketPipeError
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.users import CreateUser, DeleteUser, ListUsers, UserInfo
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.tls_settings import TlsSettings

pytestmark = pytest.mark.scenario

COMMAND = [sys.executable, "-m", "rocketpipe.cli.main"]
ALICE = Credentials("alice", Secret("the-secret-of-alice"))


@dataclass
class Served:
    """One that serves, and how its clients are told to come in."""

    process: subprocess.Popen[str]
    data: Path
    told: dict[str, Any]
    environment: dict[str, str]

    async def ask(self, address: str, request: Request[Any], by: Credentials | None = None) -> Any:
        credentials = by or credentials_of(environment=self.environment)
        assert credentials is not None
        tls = TlsSettings.of(None, self.environment)
        async with Caller(tls=tls, sign=credentials.sign) as caller:
            return await caller.call(address, request)

    async def users_at(self, address: str, by: Credentials | None = None) -> set[str]:
        reply = await self.ask(address, ListUsers(filter=""), by)
        return {user.username for user in reply.users}

    async def without(self, name: str, address: str) -> None:
        """Wait until a server that may still start does not know a user."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    if name not in await self.users_at(address):
                        return
                except RocketPipeError:
                    pass
                await asyncio.sleep(0.05)

    def page(self, name: str, token: str | None = None) -> tuple[int, str]:
        trusted = ssl.create_default_context(cafile=str(self.data / "secure" / "ca.pem"))
        asked = urllib.request.Request(f"https://{self.told['http']}/{name}")
        if token is not None:
            asked.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(asked, timeout=300, context=trusted) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""

    def secrets(self) -> list[str]:
        place = self.data / "secure"
        inner = json.loads((place / "inner.json").read_text())["secretKey"]
        return [
            inner,
            *((place / each).read_text().strip() for each in ("admin.key", "http.token")),
        ]


def variables(data: Path) -> dict[str, str]:
    """What `set -a; . client.env; set +a` says to those that are started then."""
    text = (data / "client.env").read_text()
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    return dict(line[0].split("=", 1) for line in lines if line)


@contextmanager
def served(root: Path, *arguments: str, end: signal.Signals = signal.SIGTERM) -> Iterator[Served]:
    command = [*COMMAND, "serve", "--secure", "--data", str(root / "data"), "--small-files"]
    command += ["--namesrv", "127.0.0.1:0", "--broker", "127.0.0.1:0", "-o", "json", *arguments]
    with (
        (root / "log").open("ab") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (root / "log").read_text()
            yield Served(process, root / "data", json.loads(line), variables(root / "data"))
        finally:
            process.send_signal(end)
            process.wait(300)


def test_client_env_is_all_that_a_client_needs_and_outlives_a_kill(tmp_path: Path) -> None:
    with served(tmp_path, "--http", "127.0.0.1:0", end=signal.SIGKILL) as first:
        env = {**os.environ, **first.environment}
        listed = [*COMMAND, "topic", "create", "orders", "-o", "json"]
        subprocess.run(listed, env=env, check=True, capture_output=True, timeout=300)
        # A second one in the same place ends, and leaves clients where they are.
        with pytest.raises(AssertionError, match="is locked"), served(tmp_path):
            pass
        assert variables(first.data) == first.environment
        # Neither without a name, nor in the clear, nor with a guess.
        at = first.environment["ROCKETPIPE_NAMESRV"]
        tls = TlsSettings.of(None, first.environment)
        for keys in (
            {"tls": tls},
            {"tls": False, "access_key": "admin", "secret_key": "whatever-it-may-be"},
            {"tls": tls, "access_key": "admin", "secret_key": "whatever-it-may-be"},
        ):
            with Admin(Session(at, **keys)) as admin, pytest.raises(RocketPipeError):
                admin.topics.names()
        assert [first.page(each)[0] for each in ("healthz", "readyz")] == [200, 200]
        assert [first.page(each)[0] for each in ("metrics", "version")] == [401, 401]
        code, text = first.page("metrics", first.secrets()[2])
        assert code == 200
        assert "rocketpipe_auth_failures_total" in text
        assert "rocketpipe_tls_certificate_expiry_seconds" in text
        said = Path(f"/proc/{first.process.pid}/cmdline").read_text()
        said += json.dumps(first.told) + (tmp_path / "log").read_text()
        said += (first.data / "logs" / "audit.log").read_text()
        assert "does=UpdateAndCreateTopic on=Topic:orders result=allowed" in said
        assert all(secret not in said for secret in first.secrets())
    ca = (tmp_path / "data" / "secure" / "ca.pem").read_bytes()
    # Where other machines reach it: what it is reached by is in the certificate then.
    with served(tmp_path, "--namesrv", "0.0.0.0:0", "--broker", "0.0.0.0:0") as second:
        assert not second.environment["ROCKETPIPE_NAMESRV"].startswith(("0.0.0.0", "127."))
        assert (tmp_path / "data" / "secure" / "ca.pem").read_bytes() == ca
        assert second.secrets() == first.secrets()
        credentials = credentials_of(environment=second.environment)
        assert credentials is not None
        session = Session(
            second.environment["ROCKETPIPE_NAMESRV"],
            access_key=credentials.access_key,
            secret_key_file=second.environment["ROCKETPIPE_SECRET_KEY_FILE"],
            tls=TlsSettings.of(None, second.environment),
        )
        with session, Producer(session) as producer:
            assert producer.send("orders", b"hello").queue_offset == 0


@pytest.mark.soak  # four processes twice; `tests/auth/test_kept_table.py` shares tables
async def test_all_brokers_of_a_directory_let_in_the_same_users(tmp_path: Path) -> None:
    with served(tmp_path, "--brokers", "2") as fleet:
        names, one, two = fleet.told["namesrv"], *fleet.told["brokers"].values()
        made = CreateUser(
            username="alice",
            user=UserInfo(password=ALICE.secret.reveal(), user_type="Super"),
        )
        await fleet.ask(one, made)
        # At once, and at all of them.
        assert await fleet.users_at(two, ALICE) == await fleet.users_at(names, ALICE)
        assert "alice" in await fleet.users_at(one, ALICE)
        # Who changes them at each, as a tool does that knows of no directory, is not refused.
        await fleet.ask(two, made)
        # One of them is away while somebody goes.
        children = child_processes(fleet.process.pid)
        victim = next(pid for pid, line in children.items() if "broker-a-1" in line)
        assert all(each not in "".join(children.values()) for each in fleet.secrets())
        os.kill(victim, signal.SIGKILL)
        await fleet.ask(one, DeleteUser(username="alice"))
        for address in (one, two, names):
            await fleet.without("alice", address)
            with pytest.raises(RocketPipeError, match="not let in"):
                await fleet.users_at(address, ALICE)
    with served(tmp_path) as again:
        for address in (again.told["namesrv"], *again.told["brokers"].values()):
            assert await again.users_at(address) == {"admin", "rocketpipe-inner"}
        assert {each.name for each in (again.data / "logs").iterdir()} == {
            "audit.log",
            "audit-broker-a-0.log",
            "audit-broker-a-1.log",
        }


def child_processes(parent: int) -> dict[int, str]:
    """The command lines of a process's children."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            stat = (each / "stat").read_text().rpartition(")")[2].split()
            if int(stat[1]) == parent:
                found[int(each.name)] = (each / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found
