"""Brokers and clusters, asked for by their original verbs."""

from __future__ import annotations

import argparse
from typing import Any, Final

from rocketpipe.cli.mqadmin.flags import BROKER, CLUSTER, Flag, OriginalVerbs, brokers_meant
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.brokers import BrokerInfo
from rocketpipe.clock import SystemClock
from rocketpipe.errors import RocketPipeError

_LIST: Final = {
    "cluster": "#Cluster Name",
    "broker": "#Broker Name",
    "id": "#BID",
    "address": "#Addr",
    "version": "#Version",
    "in_tps": "#InTPS(LOAD)",
    "out_tps": "#OutTPS(LOAD)",
    "timer": "#Timer(Progress)",
    "page_cache_wait_ms": "#PCWait(ms)",
    "hours": "#Hour",
    "space": "#SPACE",
    "active": "#ACTIVATED",
}
_TOTALS: Final = {
    "cluster": "#Cluster Name",
    "broker": "#Broker Name",
    "in_yesterday": "#InTotalYest",
    "out_yesterday": "#OutTotalYest",
    "in_today": "#InTotalToday",
    "out_today": "#OutTotalToday",
}


def add_verbs(verbs: OriginalVerbs) -> None:
    """Add the verbs of this file."""
    verbs.add(
        "clusterList",
        "list clusters and their brokers",
        _cluster_list,
        Flag("m", "moreStats", "messages of yesterday and today instead", switch=True),
        CLUSTER,
    )
    where = (BROKER, CLUSTER)
    verbs.add("brokerStatus", "how brokers fare", _status, one_of=where)
    verbs.add("getBrokerConfig", "the settings of brokers", _settings, one_of=where)
    verbs.add(
        "updateBrokerConfig",
        "change a setting of brokers",
        _change,
        Flag("k", "key", "the setting", required=True),
        Flag("v", "value", "what it is set to", required=True),
        one_of=where,
    )
    name = Flag("b", "brokerName", "the broker", required=True)
    verbs.add("wipeWritePerm", "keep producers away from a broker", _wipe, name)
    verbs.add("addWritePerm", "let producers come to a broker again", _allow, name)


async def _cluster_list(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = []
    for broker in await brokers_meant(admin, options):
        try:
            facts = await admin.brokers.runtime(broker.name)
        except RocketPipeError:
            facts = {}
        rows += _rows(broker, facts, more=options.moreStats)
    titles = _TOTALS if options.moreStats else _LIST
    printer.rows(rows, list(titles), list(titles.values()))
    return 0


def _rows(broker: BrokerInfo, facts: dict[str, str], *, more: bool) -> list[dict[str, Any]]:
    base = {"cluster": broker.cluster, "broker": broker.name}
    if more:
        return [base | _totals(facts)]
    # Only leaders are asked; of followers no more is known than where they are.
    return [
        base
        | {"id": broker_id, "address": address}
        | (_facts(facts) if address == broker.leader else {})
        for broker_id, address in broker.addresses.items()
    ]


def _facts(facts: dict[str, str]) -> dict[str, Any]:
    if not facts:
        return {}
    oldest = _number(facts.get("earliestMessageTimeStamp"))
    hours = None if oldest is None else max(0, SystemClock().now_ms() - oldest) / 3_600_000
    return {
        "version": facts.get("brokerVersionDesc"),
        "in_tps": f"{_first(facts, 'putTps')}({_load(facts, 'send')})",
        "out_tps": f"{_first(facts, 'getTransferredTps')}"
        f"({_load(facts, 'pull')}|{_load(facts, 'ack')})",
        "timer": f"{facts.get('timerReadBehind', '-')}-{facts.get('timerOffsetBehind', '-')}",
        "page_cache_wait_ms": facts.get("pageCacheLockTimeMills"),
        "hours": None if hours is None else f"{hours:.2f}",
        "space": facts.get("commitLogDiskRatio"),
        "active": facts.get("brokerActive"),
    }


def _first(facts: dict[str, str], name: str) -> str:
    text = facts.get(name, "").split()
    try:
        return f"{float(text[0]):.2f}" if text else "-"
    except ValueError:
        return "-"


def _load(facts: dict[str, str], pool: str) -> str:
    size = facts.get(f"{pool}ThreadPoolQueueSize", "-")
    return f"{size},{facts.get(f'{pool}ThreadPoolQueueHeadWaitTimeMills', '-')}ms"


def _totals(facts: dict[str, str]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for way, name in (("in", "msgPutTotal"), ("out", "msgGetTotal")):
        before, morning, now = (
            _number(facts.get(name + when))
            for when in ("YesterdayMorning", "TodayMorning", "TodayNow")
        )
        found[f"{way}_yesterday"] = _less(morning, before)
        found[f"{way}_today"] = _less(now, morning)
    return found


def _less(later: int | None, earlier: int | None) -> int | None:
    return None if later is None or earlier is None else later - earlier


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


async def _status(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = []
    for broker in await brokers_meant(admin, options):
        facts = await admin.brokers.runtime(broker.name)
        rows += [{"broker": broker.name, "key": key, "value": facts[key]} for key in facts]
    if printer.form != "table":
        printer.rows(rows, ["broker", "key", "value"])
        return 0
    several = len({row["broker"] for row in rows}) > 1
    for row in rows:
        head = f"{row['broker']:<24} " if several else ""
        printer.line(f"{head}{row['key']:<32}: {row['value']}")
    return 0


async def _settings(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = []
    for broker in await brokers_meant(admin, options):
        settings = await admin.brokers.settings(broker.name)
        printer.line(f"============{broker.leader}============")
        for key in sorted(settings):
            rows.append({"broker": broker.name, "key": key, "value": settings[key]})
            printer.line(f"{key:<50}=  {settings[key]}")
    if printer.form != "table":
        printer.rows(rows, ["broker", "key", "value"])
    return 0


async def _change(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    for broker in await brokers_meant(admin, options):
        await admin.brokers.change(broker.name, {options.key: options.value})
        printer.line(f"update broker config success, {broker.leader}")
    return 0


async def _wipe(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    done = await admin.brokers.stop_writes(options.brokerName)
    return _told(printer, "wipe", options.brokerName, done)


async def _allow(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    done = await admin.brokers.allow_writes(options.brokerName)
    return _told(printer, "add", options.brokerName, done)


def _told(printer: Printer, what: str, broker: str, done: dict[str, int]) -> int:
    for server, count in done.items():
        printer.line(f"{what} write perm of broker[{broker}] in name server[{server}] OK, {count}")
    return 0
