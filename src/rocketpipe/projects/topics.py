"""What the cluster says of a pipeline's topics: which there are, and how far they have grown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from rocketpipe.client.admin.admin import Admin
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.misnomers import meant_by
from rocketpipe.projects.graph import Flow, Graph
from rocketpipe.projects.records import Run

#: For each topic, broker and queue: the oldest offset, and the one behind the newest.
Ends = dict[tuple[str, str, str], tuple[int, int]]


async def ends_of(admin: Admin, topics: Iterable[str]) -> Ends:
    """How far topics have grown; those that cannot be asked now are left out."""
    found: Ends = {}
    users, every = await _names(admin)
    for topic in named(topics, users, every):
        try:
            ends = await admin.offsets.ends(topic)
        except RocketPipeError:
            continue
        for queue, end in ends.items():
            key = (topic, queue.broker_name, str(queue.queue_id))
            found[key] = (int(end.least), int(end.end))
    return found


def named(topics: Iterable[str], there: Iterable[str], by_name: Collection[str] = ()) -> list[str]:
    """The topics that names and ``/patterns/`` mean, of those that are there.

    ``by_name`` are those that no pattern means, such as dead letters.
    """
    known = sorted(there)
    found: dict[str, None] = {}
    for topic in topics:
        if topic.startswith("/") and topic.endswith("/"):
            pattern = re.compile(topic[1:-1])
            found |= dict.fromkeys(name for name in known if pattern.fullmatch(name))
        elif topic in known or topic in by_name:
            found[topic] = None
    return list(found)


def lag_of(graph: Graph, flow: Flow, run: Run, ends: Ends) -> int | None:
    """How many messages a flow has still to read; None if it streams from no topic that answers.

    One that reads topics whole in each run has no place in them, and so no lag. It is counted from
    where its last batch ended: the checkpoint's word, not the group's.
    """
    read = set(named(graph.topics_of(flow), {topic for topic, _, _ in ends}))
    if not read or not graph.groups_of(flow):
        return None
    done: Mapping[str, Mapping[str, Mapping[str, int]]] = (
        run.flows[flow.name].ends if flow.name in run.flows else {}
    )
    total = 0
    for (topic, broker, queue), (least, end) in ends.items():
        if topic in read:
            place = done.get(topic, {}).get(broker, {}).get(queue, least)
            total += max(0, end - max(place, least))
    return total


async def unknown(admin: Admin, graph: Graph) -> list[str]:
    """A line for each topic that is read or written and that there is not."""
    names, every = await _names(admin)
    lines = []
    for flow in graph.flows.values():
        for topic in flow.topics:
            if topic.startswith("/"):
                if not named([topic], names):
                    lines.append(f"flow {flow.name}: no topic fits {topic}")
            elif topic not in every:
                lines.append(
                    f"flow {flow.name}: there is no topic {topic!r}{_instead(topic, names)}"
                )
    return lines


async def to_be_made(admin: Admin, graph: Graph) -> list[str]:
    """A line for each topic that is written and that there is not yet."""
    names, every = await _names(admin)
    return [
        f"sink {each.name}: topic {each.topic!r} is new: brokers that make topics make it with the "
        f"first row, others need `rocketpipe topic create {each.topic}`"
        f"{_instead(each.topic, names, '; or did you mean ')}"
        for each in graph.datasets.values()
        if each.topic and each.topic not in every
    ]


async def _names(admin: Admin) -> tuple[frozenset[str], frozenset[str]]:
    """The topics of users, and all topics: dead letters are read by name too."""
    users = await admin.topics.names()
    return frozenset(users), frozenset(await admin.topics.names(internal=True))


def _instead(topic: str, names: Iterable[str], before: str = ": did you mean ") -> str:
    near = meant_by(topic, list(names))
    if near is not None:
        return f"{before}{near!r}?"
    return "" if before.startswith(";") else f": make it with `rocketpipe topic create {topic}`"
