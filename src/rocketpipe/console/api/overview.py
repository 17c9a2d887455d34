"""The first page: how the cluster stands, what is wrong with it, and what helps."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from rocketpipe.client.admin.findings import Finding, Level
from rocketpipe.console.answers import Figure, known, unknown
from rocketpipe.console.asking import Ask, get
from rocketpipe.console.cluster import Cluster
from rocketpipe.errors import RocketPipeError

#: So many findings are given, the worst first.
MAX_FINDINGS: Final = 200
_ORDER: Final = (Level.PROBLEM, Level.WARNING, Level.UNKNOWN, Level.OK)


async def overview(ask: Ask) -> dict[str, Any]:
    """All of it; findings are of the last check-up, which this may begin."""
    cluster = ask.cluster
    cluster.look()
    # Together: of servers that do not answer each is waited for as long as a call may take.
    found, guarded, topics, groups = await asyncio.gather(
        figures(cluster),
        ask.console.is_guarded(),
        _count(cluster.admin.topics.names()),
        _count(cluster.admin.groups.names()),
    )
    answer: dict[str, Any] = found | {
        "guarded": guarded,
        "address": ask.console.config.address,
        "name_servers": ask.console.config.name_servers,
        "topics": topics,
        "groups": groups,
        "series": {name: cluster.rings.points(name) for name in ("in", "out", "disk")},
        "as_of_ms": ask.as_of_ms(),
    }
    return answer


async def figures(cluster: Cluster) -> dict[str, Any]:
    """What changes by the second."""
    try:
        brokers = await cluster.admin.brokers.all()
    except RocketPipeError as error:
        return {
            "clusters": [],
            "brokers": unknown(error),
            **{name: unknown(error) for name in ("in", "out", "disk")},
            **findings(cluster),
        }
    return {
        "clusters": sorted({each.cluster for each in brokers}),
        "brokers": known(len(brokers)),
        **{name: _last(cluster, name) for name in ("in", "out", "disk")},
        **findings(cluster),
    }


def findings(cluster: Cluster) -> dict[str, Any]:
    """What the last check-up found, the worst first."""
    found = sorted(cluster.findings, key=lambda each: _ORDER.index(each.level))
    return {
        "findings": [shown(each) for each in found[:MAX_FINDINGS]],
        "findings_left_out": max(0, len(found) - MAX_FINDINGS),
        "checked_ms": cluster.found_ms,
        "checking": cluster.is_checking,
    }


def shown(finding: Finding) -> dict[str, Any]:
    """A finding as JSON has it."""
    return {
        "level": finding.level.value,
        "what": finding.what,
        "detail": finding.detail,
        "remedy": finding.remedy,
    }


def _last(cluster: Cluster, name: str) -> Figure:
    points = cluster.rings.points(name)
    if not points["values"]:
        return unknown("it is still being asked")
    return known(points["values"][-1], "a broker does not answer")


async def _count(names: Any) -> Figure:
    try:
        return known(len(await names))
    except RocketPipeError as error:
        return unknown(error)


ENDPOINTS = (get("/overview", overview),)
