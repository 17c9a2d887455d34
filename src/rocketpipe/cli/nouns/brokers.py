"""``rocketpipe broker list|show|config|resign|lead|forget|drain``: brokers that run."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from rocketpipe.cli.nouns import draining
from rocketpipe.cli.terminal import confirm
from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.cli.verbs import Verbs
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.brokers import BrokerInfo
from rocketpipe.client.admin.findings import counted
from rocketpipe.errors import ConfigError, RequestRejected, RocketPipeError

EXAMPLES: Final = """\
examples:
  rocketpipe broker list
  rocketpipe broker show broker-a
  rocketpipe broker show broker-a --all -o json
  rocketpipe broker config broker-a
  rocketpipe broker config broker-a --set autoCreateTopicEnable=false --yes
  rocketpipe broker resign broker-a
  rocketpipe broker resign broker-a --to 2
  rocketpipe broker lead broker-a --id 3 --dry-run
  rocketpipe broker forget broker-a --id 3
  rocketpipe broker drain broker-a-1
  rocketpipe broker drain broker-a-1 --timeout 600 --leave-unread
  rocketpipe broker drain broker-a-1 --cancel
"""

#: What operators look at first, of the many facts that a broker tells.
_FACTS: Final = (
    "brokerVersionDesc",
    "bootTimestamp",
    "brokerActive",
    "putTps",
    "getTransferredTps",
    "putMessageTimesTotal",
    "msgPutTotalTodayNow",
    "msgGetTotalTodayNow",
    "commitLogDiskRatio",
    "commitLogMinOffset",
    "commitLogMaxOffset",
    "dispatchBehindBytes",
    "earliestMessageTimeStamp",
    "timerReadBehind",
    "timerOffsetBehind",
)
_TIMES: Final = frozenset({"bootTimestamp", "earliestMessageTimeStamp"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    listing = verbs.add("list", "list brokers, and whether they answer", _list)
    listing.add_argument("--cluster", metavar="NAME", help="only those of a cluster")
    show = verbs.add("show", "how a broker fares", _show)
    show.add_argument("broker", help="its name")
    show.add_argument("--all", action="store_true", help="every fact that it tells")
    config = verbs.add("config", "show a broker's settings, or change them while it runs", _config)
    config.add_argument("broker", help="its name")
    config.add_argument("--key", metavar="NAME", help="only this setting")
    config.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change this; several times"
    )
    confirm.add_flags(config)
    resign = verbs.add(
        "resign",
        "have another replica lead: the leader hands over, and nothing is lost or refused",
        _resign,
    )
    _add_name(resign)
    resign.add_argument(
        "--to", type=int, metavar="ID", help="to this replica, which has to be in sync"
    )
    lead = verbs.add(
        "lead",
        "have a replica lead though messages that were acknowledged may be lost by that: for a "
        "group that has no leader, and whose in-sync replicas are gone or crashed",
        _lead,
    )
    _add_name(lead)
    lead.add_argument(
        "--id", type=int, metavar="ID", required=True, help="the replica that is to lead"
    )
    confirm.add_flags(lead)
    _add_forget(verbs)
    draining.add_arguments(
        verbs.add(
            "drain",
            "have a broker of several read empty, and remove it: sends go to the others, and once "
            "every group has read what it has, its files are set aside in DIR/drained",
            draining.drain,
        )
    )


def _add_forget(verbs: Verbs) -> None:
    forget = verbs.add(
        "forget",
        "keep nothing any more for a replica that is gone for good: stop it, and say this; else "
        "the leader keeps the log for it for another haRetainForFollowers. To add a replica, "
        "start one with an empty directory and the group's name: it gets an id of its own",
        _forget,
    )
    _add_name(forget)
    forget.add_argument(
        "--id", type=int, metavar="ID", required=True, help="the replica that is gone"
    )


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "broker", nargs="?", metavar="NAME", help="of the broker; not needed if there is only one"
    )


async def _list(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    rows = []
    for broker in await admin.brokers.all(cluster=options.cluster):
        facts: dict[str, str] | None
        try:
            facts = await admin.brokers.runtime(broker.name)
        except RocketPipeError:
            facts = None
        for broker_id, address in sorted(broker.addresses.items()):
            mine = facts if facts and address == broker.leader else None
            rows.append(
                {
                    "cluster": broker.cluster,
                    "broker": broker.name,
                    "id": broker_id,
                    "address": address,
                    "version": mine and mine.get("brokerVersionDesc"),
                    "in_tps": mine and _rate(mine.get("putTps")),
                    "out_tps": mine and _rate(mine.get("getTransferredTps")),
                    "answers": mine is not None if address == broker.leader else None,
                }
            )
    columns = ["cluster", "broker", "id", "address", "version", "in_tps", "out_tps", "answers"]
    printer.rows(rows, columns)
    return 0 if all(row["answers"] is not False for row in rows) else 1


async def _show(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    facts = await admin.brokers.runtime(options.broker)
    names = sorted(facts) if options.all else _FACTS
    shown = {name: _fact(name, facts.get(name)) for name in names}
    if printer.form == "table":
        shown = {
            name: _rates(text) if name.endswith("Tps") else text for name, text in shown.items()
        }
    printer.record({"broker": options.broker, **shown})
    return 0


async def _config(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    settings = await admin.brokers.settings(options.broker)
    changes = dict(_pair(text) for text in options.set)
    if changes:
        rows = [
            {"key": key, "now": settings.get(key), "then": value} for key, value in changes.items()
        ]
        if not options.dry_run:
            confirm.confirm(
                f"change {counted(len(changes), 'setting')} of {options.broker!r}", options
            )
            try:
                await admin.brokers.change(options.broker, changes)
            except RequestRejected as error:
                raise ConfigError("--set", error.remark) from error
        printer.rows(rows, ["key", "now", "then"])
        return 0
    if options.key and options.key not in settings:
        raise ConfigError("--key", f"broker {options.broker!r} has no setting {options.key!r}")
    names = [options.key] if options.key else sorted(settings, key=str.lower)
    printer.rows(({"key": key, "value": settings[key]} for key in names), ["key", "value"])
    return 0


async def _named(admin: Admin, name: str | None) -> BrokerInfo:
    """The broker of a name, or the only one there is."""
    everyone = await admin.brokers.all()
    found = [each for each in everyone if name in (None, each.name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in everyone) or "none"
    what = f"no broker is named {name!r}" if name is not None else "say which broker"
    raise ConfigError("NAME", f"{what}: there are {names}")


async def _resign(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    broker = await _named(admin, options.broker)
    done = await admin.replicas.elect(broker.name, options.to)
    printer.record(
        {"broker": done.broker, "leader": done.id, "address": done.address, "epoch": done.epoch}
    )
    return 0


async def _lead(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    broker = await _named(admin, options.broker)
    lacking = await admin.replicas.lead_anyway(broker.name, options.id, do_it=False)
    sys.stderr.write(f"{lacking.loss}\n")
    if not options.dry_run:
        confirm.confirm(f"have replica {options.id} lead {broker.name!r} all the same", options)
        lacking = await admin.replicas.lead_anyway(broker.name, options.id, do_it=True)
    printer.record(
        {
            "broker": broker.name,
            "id": options.id,
            "log_end": lacking.log_end,
            "in_sync": list(lacking.in_sync),
            "unclean": list(lacking.unclean),
            "ahead": list(lacking.ahead),
            "epoch": lacking.epoch,
            "loss": lacking.loss,
        }
    )
    return 0


async def _forget(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    broker = await _named(admin, options.broker)
    await admin.replicas.forget(broker.name, options.id)
    left = await admin.replicas.in_sync(broker.name)
    printer.record(
        {
            "broker": broker.name,
            "forgotten": options.id,
            "leader": left.leader_id,
            "in_sync": [each.id for each in left.in_sync],
        }
    )
    return 0


def _pair(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not (key and mark):
        raise ConfigError("--set", f"{text!r} has no value: write KEY=VALUE")
    return key, value


def _rate(text: str | None) -> float | None:
    """The first of the three rates that brokers tell: of the last ten seconds."""
    try:
        return float(text.split()[0]) if text else None
    except ValueError:
        return None


def _rates(text: str | None) -> str | None:
    """Three rates as people read them: to a decimal, and of what."""
    try:
        rates = [f"{float(each):.1f}" for each in text.split()] if text else []
    except ValueError:
        return text
    spans = ("10 s", "a minute", "10 minutes")
    if len(rates) != len(spans):
        return text
    return ", ".join(f"{rate} in {span}" for rate, span in zip(rates, spans, strict=True))


def _fact(name: str, text: str | None) -> str | None:
    if text is not None and name in _TIMES and text.lstrip("-").isdigit():
        return moment(int(text))
    return text
