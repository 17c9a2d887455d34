"""Servers that ask who comes, and commands that say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketpipe.testing.servers import Servers, serving

SECRET = "the-secret-of-root"


@contextmanager
def guarded(scratch: Path, *more: str) -> Iterator[Servers]:
    """Run servers whose only user is ``root``."""
    conf = scratch / "broker.conf"
    conf.write_text(
        "authenticationEnabled=true\n"
        f'initAuthenticationUser={{"username":"root","password":"{SECRET}"}}\n'
        f'innerClientAuthenticationCredentials={{"accessKey":"root","secretKey":"{SECRET}"}}\n'
        + "".join(f"{line}\n" for line in more)
    )
    with serving(scratch, ["-c", str(conf)]) as running:
        yield running


def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands ask as ``root``."""
    monkeypatch.setenv("ROCKETPIPE_ACCESS_KEY", "root")
    monkeypatch.setenv("ROCKETPIPE_SECRET_KEY", SECRET)
