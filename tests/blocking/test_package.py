"""Both faces have the same names, the same parameters, and the same meaning."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import rocketpipe
from rocketpipe import blocking
from rocketpipe.blocking import admin as blocking_admin
from rocketpipe.client.admin import brokers, groups, messages, name_servers, offsets, topics

PAIRS: list[tuple[type[Any], type[Any]]] = [
    (rocketpipe.Session, blocking.Session),
    (rocketpipe.Producer, blocking.Producer),
    (rocketpipe.PushConsumer, blocking.PushConsumer),
    (rocketpipe.PullConsumer, blocking.PullConsumer),
    (rocketpipe.Admin, blocking.Admin),
    (topics.TopicAdmin, blocking_admin.TopicAdmin),
    (groups.GroupAdmin, blocking_admin.GroupAdmin),
    (brokers.BrokerAdmin, blocking_admin.BrokerAdmin),
    (name_servers.NameServerAdmin, blocking_admin.NameServerAdmin),
    (messages.MessageAdmin, blocking_admin.MessageAdmin),
    (offsets.OffsetAdmin, blocking_admin.OffsetAdmin),
]

# What a session asks of its members and tells them; nobody else calls it.
FOR_THE_SESSION = {
    "producer_groups",
    "consumers",
    "topics",
    "on_ids_changed",
    "on_routes_changed",
    "on_offsets_reset",
    "on_reply",
    "on_transaction_check",
    "running_info",
    "places",
    "consume_directly",
}
# Members are asynchronous; and so is what the parts of a client share.
FOR_MEMBERS = {"join", "leave", "of", "is_of_parent"}
ASYNCHRONOUS_PARTS = {
    "name_servers",
    "clock",
    "chance",
    "timeout_ms",
    "keys",
    "caller",
    "credentials",
    "directory",
    "routes",
    "leaders",
}
LEFT_OUT = {
    rocketpipe.Session: FOR_MEMBERS | ASYNCHRONOUS_PARTS,
    rocketpipe.Producer: FOR_THE_SESSION,
    rocketpipe.PushConsumer: FOR_THE_SESSION,
}
#: Made by one face of another.
OF_THEIR_OWN = {"around"}

by_name = pytest.mark.parametrize(
    ("waiting", "blocks"), PAIRS, ids=[each.__name__ for each, _ in PAIRS]
)


def public(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def made(kind: type[Any]) -> Any:
    more = {"group": "g"} if "group" in inspect.signature(kind).parameters else {}
    return kind("127.0.0.1:1", **more)


def test_both_packages_export_the_same_names() -> None:
    modules = {"errors", "selectors", "strategies"}
    own = {"Background"}  # who writes coroutines for asyncio's clients has a loop
    assert set(blocking.__all__) - own == set(rocketpipe.__all__) - {"__version__"} - modules


@by_name
def test_every_public_name_is_there_and_no_other(waiting: type[Any], blocks: type[Any]) -> None:
    wanted = public(waiting) - LEFT_OUT.get(waiting, set())
    assert wanted <= public(blocks) | {"group"}
    assert public(blocks) - OF_THEIR_OWN <= public(waiting) | {"group"}


@by_name
def test_parameters_and_results_are_the_same(waiting: type[Any], blocks: type[Any]) -> None:
    compared = 0
    for name in sorted(public(waiting) - LEFT_OUT.get(waiting, set())):
        ours, theirs = getattr(blocks, name), getattr(waiting, name)
        assert not inspect.iscoroutinefunction(ours), name
        if inspect.isfunction(theirs):
            assert inspect.signature(ours) == inspect.signature(theirs), name
            assert ours.__doc__, name
            compared += 1
        else:
            assert isinstance(theirs, property), name
            assert isinstance(ours, property), name
    assert compared or waiting is rocketpipe.Admin


@pytest.mark.parametrize(("waiting", "blocks"), PAIRS[:5], ids=lambda kind: kind.__name__)
def test_clients_are_made_alike(waiting: type[Any], blocks: type[Any]) -> None:
    assert inspect.signature(blocks.__init__) == inspect.signature(waiting.__init__)
    ours, theirs = made(blocks), made(waiting)
    for name in vars(theirs):
        if not name.startswith("_") and name not in LEFT_OUT.get(waiting, set()):
            assert hasattr(ours, name), name
    assert hasattr(waiting, "__aenter__")
    assert hasattr(blocks, "__enter__")
    assert hasattr(waiting, "__aiter__") == hasattr(blocks, "__iter__")
