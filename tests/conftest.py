"""What all tests share."""

from __future__ import annotations

import random
import socket
import tarfile
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


if not hasattr(tarfile, "data_filter"):  # Python before 3.11.4, which Debian 12 has
    _extractall: Any = tarfile.TarFile.extractall

    def _extract_unfiltered(
        self: tarfile.TarFile,
        path: Any = ".",
        members: Any = None,
        *,
        filter: str,  # noqa: A002
    ) -> None:
        """Take the argument that newer versions want; the archives are our own."""
        _extractall(self, path, members)

    tarfile.TarFile.extractall = _extract_unfiltered  # type: ignore[method-assign,assignment]


@pytest.fixture
def lasting_port() -> int:
    """A port that can be let go and taken again.

    It lies below those that systems hand out for port 0, which tests beside this one ask for.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
