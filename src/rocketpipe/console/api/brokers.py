"""Brokers: every copy with its role, how leaders fare, and their settings without secrets."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from rocketpipe.client.admin.brokers import BrokerLoad
from rocketpipe.client.admin.fleet import each
from rocketpipe.console.answers import Problem
from rocketpipe.console.asking import Ask, change, get
from rocketpipe.console.noting import check_typed, noted
from rocketpipe.errors import RocketPipeError

HIDDEN: Final = "******"
_SECRET: Final = re.compile(r"secret|password|passwd|token|credential|accesskey|privatekey", re.I)


class NewSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One setting that is to be another, while the broker runs; its name is typed to confirm."""

    key: str
    value: str
    confirm: str


async def brokers(ask: Ask) -> dict[str, Any]:
    """Every registered copy of every broker, its leader first."""
    replicas = await ask.admin.replicas.all()
    names = list(dict.fromkeys(one.broker for one in replicas))

    async def facts(name: str) -> dict[str, str] | RocketPipeError:
        try:
            return await ask.admin.brokers.runtime(name)
        except RocketPipeError as error:
            return error

    known = await each(names, facts)
    rows = []
    for one in replicas:
        row: dict[str, Any] = {
            "cluster": one.cluster,
            "name": one.broker,
            "id": one.id,
            "address": one.address,
            "role": one.role or ("leader" if one.id == 0 else "follower"),
            "epoch": one.epoch,
            "log_end": one.log_end,
            "behind": one.lag,
            "in_sync": one.in_sync,
            "problem": one.problem,
            "refused": one.refused,
        }
        found = known[one.broker]
        if one.id == 0:
            row |= _fares(found) if isinstance(found, dict) else {"problem": str(found)}
        rows.append(row)
    return {"rows": rows, "complete": True, "as_of_ms": ask.as_of_ms()}


async def broker(ask: Ask) -> dict[str, Any]:
    """All that a broker tells of how it fares, and the points of its charts."""
    name = ask.part("broker")
    rings = ask.cluster.rings
    return {
        "name": name,
        "facts": await ask.admin.brokers.runtime(name),
        "series": {what: rings.points(f"{what}:{name}") for what in ("in", "out", "disk")},
        "as_of_ms": ask.as_of_ms(),
    }


async def settings(ask: Ask) -> dict[str, Any]:
    """The settings in force at a broker whose names contain ``q``, and which can be changed now.

    Of a broker that does not tell which these are, as RocketMQ's own do not, that is unknown.
    """
    q = (ask.text("q") or "").lower()
    found, live = await ask.admin.brokers.settings_and_live(ask.part("broker"))
    return {
        "rows": [
            {
                "key": key,
                "value": redacted(key, value),
                "live": None if live is None else key in live,
            }
            for key, value in sorted(found.items())
            if q in key.lower()
        ],
        "complete": True,
        "as_of_ms": ask.as_of_ms(),
    }


async def change_setting(ask: Ask) -> dict[str, Any]:
    """Change a setting of a broker while it runs."""
    name = ask.part("broker")
    wanted = await ask.body(NewSetting)
    check_typed(wanted.confirm, wanted.key)
    if is_secret(wanted.key):
        raise Problem(403, f"{wanted.key} is a secret", "set it in the broker's own file")
    what = f"set {wanted.key}={wanted.value} at broker {name}"
    await noted(ask, what, ask.admin.brokers.change(name, {wanted.key: wanted.value}))
    return {"key": wanted.key, "value": wanted.value}


def is_secret(key: str) -> bool:
    """Whether the value of a setting is nobody's business."""
    return _SECRET.search(key) is not None


def redacted(key: str, value: str) -> str:
    """The value of a setting, unless it is a secret."""
    return HIDDEN if value and is_secret(key) else value


def _fares(facts: dict[str, str]) -> dict[str, Any]:
    load = BrokerLoad.of(facts)
    return {
        "version": facts.get("brokerVersionDesc"),
        "in": load.in_rate,
        "out": load.out_rate,
        "disk": round(load.disk_percent, 1),
        "unsynced": _whole(facts.get("remainHowManyDataToFlush")),
        "boot_ms": _whole(facts.get("bootTimestamp")),
    }


def _whole(text: str | None) -> int | None:
    found = re.match(r"\d+", text or "")
    return int(found[0]) if found else None


ENDPOINTS = (
    get("/brokers", brokers),
    get("/brokers/{broker}", broker),
    get("/brokers/{broker}/settings", settings),
    change("/brokers/{broker}/settings", change_setting),
)
