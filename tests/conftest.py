"""What all tests share."""

from __future__ import annotations

import random
import socket

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


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
