"""What a doctor makes of the copies of one broker's log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rocketpipe.client.admin.findings import Finding, counted, ok, problem, warning
from rocketpipe.client.admin.replicas import ReplicaInfo
from rocketpipe.protocol.refusals import ACKNOWLEDGED_WOULD_GO

#: A replica that is further behind does not keep up.
BEHIND_BYTES: Final = 16 << 20


def replicas(
    broker: str, rows: Sequence[ReplicaInfo], settings: Mapping[str, str]
) -> Iterator[Finding]:
    """How the copies of a broker stand, given the settings of its leader; none of one alone."""
    told = [one for one in rows if one.role is not None]
    leading = [one for one in told if one.role == "leader"]
    if len(leading) > 1:
        named = ", ".join(f"{one.address} (epoch {_known(one.epoch)})" for one in leading)
        yield problem(
            f"leader of {broker}",
            f"{named} each take themselves for it",
            "stop the one with the lower epoch, and start it as a follower: rocketpipe cluster "
            "status shows both",
        )
    refusing = [one for one in told if _has_more(one)]
    for one in told:
        if one in refusing:
            yield _ahead(one, _way_out(broker, refusing, leading, settings))
        elif one.role == "follower":
            yield _follower(one)
    if len(rows) > 1 or "minInSyncReplicas" in settings:
        yield from _in_sync(broker, rows, settings, old_leader=bool(refusing))


def _has_more(one: ReplicaInfo) -> bool:
    """Whether a follower has what its leader lacks, and does not follow it."""
    if one.role != "follower" or one.follows is not None:
        return False
    return (one.lag or 0) < 0 or ACKNOWLEDGED_WOULD_GO in (one.refused or "")


def _ahead(one: ReplicaInfo, way_out: str) -> Finding:
    more = ""
    if one.lag is not None and one.lag < 0:
        more = f", and has {counted(-one.lag, 'byte')} more than its leader"
    return problem(
        f"replica {one.id} of {one.broker}",
        f"follows nobody{more}{_because(one)}",
        way_out,
    )


def _way_out(
    broker: str,
    refusing: Sequence[ReplicaInfo],
    leading: Sequence[ReplicaInfo],
    settings: Mapping[str, str],
) -> str:
    best = max(refusing, key=lambda one: (one.epoch or 0, one.log_end or 0))
    old = f"the leader, at {leading[0].address}," if len(leading) == 1 else "the leader"
    if settings.get("zookeeperAddr"):
        instead = f"rocketpipe broker lead {broker} --id {best.id} --yes"
    else:
        instead = f"start replica {best.id} as the master"
    return (
        f"does {old} run on an old copy of its directory? Then take no sends there: stop it, "
        f"{instead}, empty the directory of the old one, and start that"
    )


def _because(one: ReplicaInfo) -> str:
    return f": {one.refused}" if one.refused else ""


def _follower(one: ReplicaInfo) -> Finding:
    what = f"replica {one.id} of {one.broker}"
    if one.follows is None:
        return problem(
            what,
            f"follows nobody{_because(one)}",
            "is its leader there, and does it reach the leader's HA port (brokerIP2, "
            f"haListenPort)? rocketpipe mqadmin haStatus -b {one.address}",
        )
    if one.lag is not None and one.lag > BEHIND_BYTES:
        return warning(
            what,
            f"{one.lag >> 20} MiB behind {one.follows}",
            "look at its disk and at the network between; whether it comes nearer says rocketpipe "
            f"mqadmin haStatus -b {one.address} -i 1",
        )
    behind = "unknown how far" if one.lag is None else counted(one.lag, "byte")
    return ok(what, f"follows {one.follows}, {behind} behind")


def _in_sync(
    broker: str, rows: Sequence[ReplicaInfo], settings: Mapping[str, str], *, old_leader: bool
) -> Iterator[Finding]:
    """``old_leader`` says that what it took alone would be a second history."""
    if settings.get("brokerRole") != "SYNC_MASTER":
        return  # nobody is waited for
    least = settings.get("minInSyncReplicas", "")
    if not least.isdigit() or any(one.in_sync is None for one in rows):
        return
    have = sum(bool(one.in_sync) for one in rows)
    what = f"in-sync replicas of {broker}"
    if have < int(least):
        remedy = "start its replicas, or put right what keeps them behind"
        if old_leader:
            remedy = "have one lead that has everything, as is said of its replicas"
        else:
            remedy += (
                "; to take sends with fewer copies: rocketpipe broker config "
                f"{broker} --set minInSyncReplicas={have}"
            )
        yield problem(what, f"{have} of at least {least}: sends are refused", remedy)
    else:
        yield ok(what, f"{have}, of at least {least}")


def _known(number: int | None) -> str:
    return "unknown" if number is None else str(number)
