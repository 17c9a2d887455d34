"""Peers are accepted while there are descriptors, and wait while there are none."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import Any, cast

import pytest
from tests.waiting import until

from rocketpipe.remoting import accepting as module
from rocketpipe.remoting.accepting import Accepting, prepare


class Port:
    """A listening socket whose process has no descriptor left while it ``fails``."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.fails = 0
        self.taken: list[socket.socket] = []
        self.said: list[str] = []
        self.accepting = Accepting(
            cast("Any", self), lambda taken, _: self.taken.append(taken), self.said.append
        )

    def fileno(self) -> int:
        return self.socket.fileno()

    def accept(self) -> Any:
        if self.fails:
            raise OSError(self.fails, os.strerror(self.fails))
        return self.socket.accept()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.socket.getsockname())


async def turns() -> None:
    """Let the loop look at its sockets."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def port() -> Any:
    made = Port()
    yield made
    made.accepting.off()
    for each in (made.socket, *made.taken):
        each.close()


async def test_who_connects_is_handed_on_until_it_is_turned_off(port: Port) -> None:
    port.accepting.on()
    with port.connect(), port.connect():
        await until(lambda: len(port.taken) == 2)
        prepare(port.taken[0])
        assert not port.taken[0].getblocking()
        assert port.taken[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    port.accepting.off()
    with port.connect():
        await turns()
        assert len(port.taken) == 2


async def test_without_descriptors_peers_wait_and_nobody_asks_all_the_time(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ACCEPT_AGAIN_S", 0.01)
    port.fails = errno.EMFILE
    port.accepting.on()
    with port.connect():
        await until(lambda: port.said)
        assert port.said[0] == os.strerror(errno.EMFILE)
        port.fails = 0
        await until(lambda: port.taken)


async def test_off_while_peers_wait_is_for_good(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ACCEPT_AGAIN_S", 0.0)
    port.fails = errno.ENFILE
    port.accepting.on()
    with port.connect():
        await until(lambda: port.said)
        port.accepting.off()
        port.fails = 0
        said = len(port.said)
        await turns()
        assert not port.taken
        assert len(port.said) == said
