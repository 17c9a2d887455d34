"""Who is connected to a broker, what it has, and what waits in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from rocketpipe.broker.core import Core
from rocketpipe.broker.metrics.labels import is_system, version_name
from rocketpipe.broker.tables.consumer_group import Client
from rocketpipe.metrics import Family, Kind, Series, single
from rocketpipe.model.subscription import ConsumeType

_MODES: Final = {
    ConsumeType.CONSUME_ACTIVELY: "pull",
    ConsumeType.CONSUME_PASSIVELY: "push",
    ConsumeType.CONSUME_POP: "pop",
}


def connections(core: Core, named: Mapping[str, str]) -> Iterator[Family]:
    """Producers and consumers by what they are, and how much of everything there is."""
    tables, connected = core.tables, core.connected
    for name, text, value in (
        ("rocketmq_broker_permission", "4 may be read, 2 written.", core.settings.now.permission),
        ("rocketmq_topic_number", "Topics.", len(tables.topics.all())),
        ("rocketmq_consumer_group_number", "Groups with settings.", len(tables.groups.all())),
        ("rocketpipe_waiting_pulls", "Pulls that wait for a message.", len(core.waiting)),
        ("rocketpipe_waiting_sends", "Sends that wait for the disk.", core.visibility.waiting),
    ):
        yield single(name, Kind.GAUGE, text, value, **named)
    producers = Counter(
        _kind(member.client)
        for members in connected.producers_by_group().values()
        for member in members
    )
    yield Family(
        "rocketmq_producer_connections",
        Kind.GAUGE,
        "Producers connected.",
        (Series(count, {**named, **dict(kind)}) for kind, count in producers.items()),
    )
    yield Family(
        "rocketmq_consumer_connections",
        Kind.GAUGE,
        "Consumers connected.",
        (Series(count, {**named, **labels}) for labels, count in _consumers(core)),
    )


def _consumers(core: Core) -> Iterator[tuple[dict[str, str], int]]:
    for name in core.connected.consumer_groups():
        group = core.connected.consumer_group(name)
        if group is None:
            continue
        about = {
            "consumer_group": name,
            "consume_mode": _MODES[group.consume_type],
            "is_system": is_system("", name),
        }
        kinds = Counter(_kind(member.client) for member in group.members())
        for kind, count in kinds.items():
            yield {**about, **dict(kind)}, count


def _kind(client: Client) -> tuple[tuple[str, str], ...]:
    """What clients are told apart by."""
    return (
        ("language", client.language.name.lower() if client.language is not None else "other"),
        ("version", version_name(client.version)),
        ("protocol_type", "remoting"),
    )
