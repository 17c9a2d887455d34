"""The port of a process that has no loop."""

from __future__ import annotations

from urllib.request import urlopen

import pytest

from rocketpipe.errors import PortUnavailable
from rocketpipe.health.http_port import Watched
from rocketpipe.health.http_thread import HttpThread
from rocketpipe.metrics import Kind, single


def watched() -> Watched:
    told = Watched()
    told.add(lambda: None, lambda: [single("x_total", Kind.COUNTER, "Of x.", 3)])
    told.started = True
    return told


def test_it_answers_until_it_is_closed() -> None:
    port = HttpThread("127.0.0.1", 0, watched())
    with urlopen(f"http://{port.address}/metrics", timeout=30) as answer:
        assert "x_total 3" in answer.read().decode()
    port.close()
    with pytest.raises(OSError):
        urlopen(f"http://{port.address}/metrics", timeout=30)
    port.close()


def test_a_port_that_is_taken_is_told_by_its_name() -> None:
    first = HttpThread("127.0.0.1", 0, watched())
    try:
        host, _, number = first.address.partition(":")
        with pytest.raises(PortUnavailable, match=number):
            HttpThread(host, int(number), watched())
    finally:
        first.close()
