"""The copies of brokers, asked for by their original verbs.

RocketMQ asks its controller who is in sync, and has it elect. Here there is none: the leader is
asked, and where ``-a`` says the controller is does not matter.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from rocketpipe.cli.mqadmin.flags import BROKER, CLUSTER, Flag, OriginalVerbs, brokers_meant
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.brokers import BrokerInfo
from rocketpipe.errors import ConfigError
from rocketpipe.protocol.requests.replication import ReplicaIdentity

_CONTROLLER: Final = Flag(
    "a", "controllerAddress", "not needed: there is no controller, the leader is asked"
)
_NO_END: Final = (1 << 63) - 1


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


_INTERVAL: Final = Flag("i", "interval", "again and again, so many seconds apart", takes=_seconds)

_HA: Final = {
    "broker": "#Broker",
    "role": "#Role",
    "peer": "#Peer",
    "end": "#LogEnd",
    "diff": "#Diff",
    "in_sync": "#InSync",
    "bytes_per_second": "#Byte/s",
    "transfer_from": "#TransferFrom",
}
_EPOCHS: Final = {
    "broker": "#Broker Name",
    "id": "#BID",
    "address": "#Addr",
    "epoch": "#Epoch",
    "start": "#StartOffset",
    "end": "#EndOffset",
}
_SET: Final = {
    "broker": "#Broker Name",
    "epoch": "#MasterEpoch",
    "set_epoch": "#SyncStateSetEpoch",
    "id": "#BID",
    "address": "#Addr",
    "role": "#Role",
    "in_sync": "#InSync",
    "alive": "#Alive",
}


def add_verbs(verbs: OriginalVerbs) -> None:
    """Add the verbs of this file."""
    where = (BROKER, CLUSTER)
    verbs.add("haStatus", "how far the copies of brokers are", _ha_status, _INTERVAL, one_of=where)
    verbs.add(
        "getBrokerEpoch", "which leaders wrote brokers' logs", _epochs, _INTERVAL, one_of=where
    )
    verbs.add(
        "getSyncStateSet",
        "who is in sync with the leaders of brokers, as they say: there is no controller",
        _sync_state,
        _CONTROLLER,
        _INTERVAL,
        one_of=(Flag("b", "brokerName", "of this broker"), CLUSTER),
    )
    verbs.add(
        "electMaster",
        "have another replica lead; the leader hands over, as there is no controller",
        _elect,
        _CONTROLLER,
        Flag("b", "brokerId", "the replica that is to lead", required=True, takes=int),
        Flag("bn", "brokerName", "the broker", required=True),
        CLUSTER,
    )


async def _again(options: argparse.Namespace, show: Callable[[], Awaitable[None]]) -> int:
    while True:
        await show()
        if options.interval is None:
            return 0
        await asyncio.sleep(options.interval)


def _addresses(broker: BrokerInfo, options: argparse.Namespace) -> dict[int, str]:
    """Every copy of a broker, or the one whose address was given."""
    wanted = getattr(options, BROKER.word, None)
    mine = {number: at for number, at in broker.addresses.items() if at == wanted}
    return mine or dict(broker.addresses)


async def _ha_status(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    async def show() -> None:
        rows: list[dict[str, Any]] = []
        for broker in await brokers_meant(admin, options):
            for address in _addresses(broker, options).values():
                rows += await _ha_rows(admin, address)
        printer.rows(rows, list(_HA), list(_HA.values()))

    return await _again(options, show)


async def _ha_rows(admin: Admin, address: str) -> list[dict[str, Any]]:
    status = await admin.replicas.ha_status(address)
    if not status.leads:
        told = status.following
        return [
            {
                "broker": address,
                "role": "SLAVE",
                "peer": told.master,
                "end": told.log_end,
                "bytes_per_second": told.bytes_per_second,
            }
        ]
    own = {"broker": address, "role": "MASTER", "end": status.log_end, "in_sync": True}
    return [
        own,
        *(
            {
                "broker": address,
                "role": "its slave",
                "peer": one.address,
                "end": one.acknowledged,
                "diff": one.lag,
                "in_sync": one.in_sync,
                "bytes_per_second": one.bytes_per_second,
                "transfer_from": one.transfer_from,
            }
            for one in status.followers
        ),
    ]


async def _epochs(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    async def show() -> None:
        rows = []
        for broker in await brokers_meant(admin, options):
            for number, address in _addresses(broker, options).items():
                cache = await admin.replicas.epochs(address)
                rows += [
                    {
                        "broker": broker.name,
                        "id": number,
                        "address": address,
                        "epoch": span.epoch,
                        "start": span.start,
                        "end": cache.log_end if span.end == _NO_END else span.end,
                    }
                    for span in cache.epochs
                ]
        printer.rows(rows, list(_EPOCHS), list(_EPOCHS.values()))

    return await _again(options, show)


async def _sync_state(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    async def show() -> None:
        names = [options.brokerName] if options.brokerName else None
        if names is None:
            found = await admin.brokers.all(cluster=options.clusterName)
            names = [broker.name for broker in found]
        rows = []
        for name in names:
            group = await admin.replicas.in_sync(name)
            for members, is_in in ((group.in_sync, True), (group.others, False)):
                rows += [
                    _member(name, one, leads=one.id == group.leader_id, in_sync=is_in)
                    | {"epoch": group.epoch, "set_epoch": group.set_epoch}
                    for one in members
                ]
        printer.rows(rows, list(_SET), list(_SET.values()))

    return await _again(options, show)


def _member(broker: str, one: ReplicaIdentity, *, leads: bool, in_sync: bool) -> dict[str, Any]:
    return {
        "broker": broker,
        "id": one.id,
        "address": one.address,
        "role": "MASTER" if leads else "SLAVE",
        "in_sync": in_sync,
        "alive": one.alive,
    }


async def _elect(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    if options.brokerId < 0:
        raise ConfigError("-b", f"{options.brokerId} is no replica's id")
    if options.clusterName is not None:
        found = await admin.brokers.all(cluster=options.clusterName)
        if options.brokerName not in {each.name for each in found}:
            raise ConfigError("-bn", f"{options.brokerName!r} is not in {options.clusterName!r}")
    done = await admin.replicas.elect(options.brokerName, options.brokerId)
    printer.line(
        f"elect master success: {done.broker} is led by {done.id} at {done.address}, "
        f"epoch {done.epoch}"
    )
    return 0
