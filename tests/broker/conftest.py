"""A broker to send real requests to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.protocol.request import Request
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.health import StoreState
from rocketpipe.testing import Cluster, cluster

Ask = Callable[[Request[Any]], Awaitable[Any]]


@pytest.fixture(autouse=True)
def stores_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let go of what a test leaves open: thousands of them share the descriptors of a process."""
    opened: list[MessageStore] = []
    as_it_is = MessageStore.open.__func__  # type: ignore[attr-defined]

    def noted(cls: type[MessageStore], *args: Any, **options: Any) -> MessageStore:
        store: MessageStore = as_it_is(cls, *args, **options)
        opened.append(store)
        return store

    monkeypatch.setattr(MessageStore, "open", classmethod(noted))
    yield
    for store in opened:
        if store.health.state is not StoreState.CLOSED:
            with suppress(Exception):  # of one that failed, or whose disk is gone, on purpose
                store.abandon()


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as running:
        yield running


@pytest.fixture
async def ask(servers: Cluster) -> AsyncIterator[Ask]:
    """Ask the broker, over a socket."""
    async with Caller() as caller:

        async def call(request: Request[Any]) -> Any:
            return await caller.call(servers.broker, request)

        yield call
