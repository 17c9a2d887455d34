"""What a doctor makes of the facts: each function takes what was seen, and gives findings.

Nothing here asks anybody. A fact that is not known is given as None and found to be unknown; it is
never taken for zero.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from rocketpipe.model.names import is_retry_topic
from rocketpipe.model.topic import Perm

#: Brokers remove old files early from here on, and refuse to write from there on, in percent, if
#: they do not say otherwise.
DISK_EARLY: Final = 75
DISK_FULL: Final = 90
#: Clocks further apart than these are worth a look, and wrong.
SKEW_NOTED_MS: Final = 5_000
SKEW_WRONG_MS: Final = 60_000
#: Timed messages that are later than this are a backlog.
TIMER_LATE_S: Final = 10
#: A broker whose queues are this far behind its log does not keep up.
BEHIND_BYTES: Final = 64 << 20
#: A transaction that is open for longer was forgotten.
OPEN_LONG_MS: Final = 10 * 60_000
_MAX_NAMED: Final = 3
_RUNTIME: Final = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")


class Level(StrEnum):
    """How bad it is; of what could not be found out, nobody knows."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, what was seen, and what to do about it."""

    level: Level
    what: str
    detail: str
    remedy: str | None = None


#: What one member of a group wants: topic, kind of expression, expression.
Wants: TypeAlias = frozenset[tuple[str, str, str]]


def ok(what: str, detail: str) -> Finding:
    """Nothing to do."""
    return Finding(Level.OK, what, detail)


def warning(what: str, detail: str, remedy: str) -> Finding:
    """Somebody should look."""
    return Finding(Level.WARNING, what, detail, remedy)


def problem(what: str, detail: str, remedy: str) -> Finding:
    """Something does not work."""
    return Finding(Level.PROBLEM, what, detail, remedy)


def unknown(what: str, detail: str, remedy: str | None = None) -> Finding:
    """It could not be found out."""
    return Finding(Level.UNKNOWN, what, detail, remedy)


# Brokers


def disk(broker: str, facts: Mapping[str, str], settings: Mapping[str, str]) -> Finding:
    """How full the disk of a broker's log is."""
    what = f"disk of {broker}"
    ratio = _real(facts.get("commitLogDiskRatio"))
    if ratio is None or ratio < 0:
        return unknown(what, "the broker does not say how full it is")
    early, full = (
        usual if (set_to := _whole(settings.get(key))) is None else set_to
        for key, usual in (
            ("diskMaxUsedSpaceRatio", DISK_EARLY),
            ("diskSpaceWarningLevelRatio", DISK_FULL),
        )
    )
    percent = ratio * 100
    detail = f"{percent:.0f}% used"
    remedy = "make room, or keep messages for less long (fileReservedTime)"
    if percent >= full:
        return problem(what, f"{detail}; from {full}% on brokers refuse to write", remedy)
    if percent >= early:
        return warning(what, f"{detail}; from {early}% on old files go before their time", remedy)
    return ok(what, detail)


def clock_skew(broker: str, facts: Mapping[str, str], asked_ms: int, answered_ms: int) -> Finding:
    """How far a broker's clock is from ours, given when it was asked and when it answered."""
    what = f"clock of {broker}"
    started_ms = _whole(facts.get("bootTimestamp"))
    up = _RUNTIME.fullmatch(facts.get("runtime", "").strip())
    if started_ms is None or up is None:
        return unknown(what, "the broker does not tell its time")
    days, hours, minutes, seconds = map(int, up.groups())
    there_ms = started_ms + 1000 * (((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    # It tells whole seconds, and answered at some moment between the two.
    least, most = there_ms - answered_ms, there_ms + 1000 - asked_ms
    apart = max(least, -most, 0)
    if apart >= SKEW_NOTED_MS:
        side = "ahead of" if least > 0 else "behind"
        detail = f"{apart / 1000:.0f} s {side} this machine's"
        remedy = "have both machines set their clocks by NTP: delays and retention go by them"
        return (problem if apart >= SKEW_WRONG_MS else warning)(what, detail, remedy)
    return ok(what, "agrees with this machine's to a few seconds")


def dispatch(broker: str, facts: Mapping[str, str]) -> Finding:
    """Whether a broker's queues keep up with its log."""
    what = f"queues of {broker}"
    behind = _whole(facts.get("dispatchBehindBytes"))
    if behind is None:
        return unknown(what, "the broker does not say how far they are behind its log")
    if behind >= BEHIND_BYTES:
        return warning(
            what,
            f"{behind} bytes behind the log: stored messages are not seen yet",
            "wait if it has just started; else look at its disk and its log",
        )
    return ok(what, f"{behind} bytes behind the log")


def damage(broker: str, facts: Mapping[str, str]) -> Finding:
    """Whether a broker has met records, or files that follow from them, that are damaged."""
    what = f"files of {broker}"
    records, files = _whole(facts.get("damagedRecords")), _whole(facts.get("damagedFiles"))
    if records is None or files is None:
        return unknown(what, "the broker does not say whether it met damage")
    if records:
        return problem(
            what,
            f"{counted(records, 'damaged record')} met since it started",
            "look for 'record is damaged' in its log, and at its disk; `rocketpipe store check "
            "DIR` finds all of them, a backup has them whole; onDamage says whether readers skip "
            "them",
        )
    if files:
        return warning(
            what,
            f"{counted(files, 'damaged queue or index')} made anew from the log",
            "nothing is lost; look at its disk and its memory",
        )
    return ok(what, "no damage met since it started")


def delayed(broker: str, facts: Mapping[str, str]) -> Finding:
    """What waits for its moment at a broker, and whether some of it is late."""
    what = f"delayed messages at {broker}"
    late_s, timed = _whole(facts.get("timerReadBehind")), _whole(facts.get("timerCongestNum"))
    levels = [_span(text) for name, text in facts.items() if name.startswith("scheduleMessage")]
    known = [waiting for waiting in levels if waiting is not None]
    by_level = str(sum(known)) if known and len(known) == len(levels) else "unknown"
    detail = f"{by_level} by level, {'unknown' if timed is None else timed} by time"
    if late_s is not None and late_s > TIMER_LATE_S:
        return warning(
            what,
            f"{detail}; delivery is {late_s} s late",
            "look at the broker's disk and load: what is late is delivered, but not in time",
        )
    if late_s is None and not known:
        return unknown(what, "the broker does not say")
    return ok(what, detail)


def broker_permission(broker: str, settings: Mapping[str, str] | None) -> Finding:
    """Whether a broker lets itself be read and written."""
    what = f"permission of {broker}"
    perm = _whole((settings or {}).get("brokerPermission"))
    if perm is None:
        return unknown(what, "the broker does not say what it permits")
    lacking = [
        name for name, bit in (("read", Perm.READ), ("written", Perm.WRITE)) if not perm & bit
    ]
    if lacking:
        return warning(
            what,
            f"it may not be {' or '.join(lacking)} (brokerPermission={perm})",
            f"if that is not meant: rocketpipe broker config {broker} --set brokerPermission=6",
        )
    return ok(what, "read and written")


def wiped(broker: str) -> Finding:
    """A broker that lets itself be written, which NameServers tell nobody."""
    return warning(
        f"permission of {broker} at NameServers",
        "it may not be written: its write permission was wiped there",
        f"if that is not meant: rocketpipe mqadmin addWritePerm -b {broker}",
    )


def versions(by_broker: Mapping[str, str | None]) -> Finding:
    """Whether all brokers are of one version."""
    silent = sorted(name for name, version in by_broker.items() if version is None)
    found = sorted({version for version in by_broker.values() if version is not None})
    if len(found) > 1:
        named = ", ".join(f"{name} {version}" for name, version in sorted(by_broker.items()))
        return warning("versions", named, "upgrade the older ones when you can")
    if silent or not found:
        return unknown("versions", f"not told by {_names(silent) or 'any broker'}")
    return ok("versions", f"{counted(len(by_broker), 'broker')}, all {found[0]}")


# NameServers and topics


def agreement(what: str, by_server: Mapping[str, object]) -> Finding:
    """Whether all NameServers said the same of something."""
    answers = list(by_server.values())
    if len(answers) < 2:
        return unknown(what, "only one NameServer was asked, or only one answered")
    first = next(iter(by_server))
    other = [server for server, answer in by_server.items() if answer != answers[0]]
    if other:
        return problem(
            what,
            f"{_names(other)} and {first} know it differently",
            "have every broker name all NameServers, and wait half a minute",
        )
    return ok(what, f"the same at {len(answers)} NameServers")


def topic_permissions(
    perms: Mapping[str, Mapping[str, int]], closed_brokers: Collection[str] = ()
) -> Iterator[Finding]:
    """Topics that cannot be read or written, given what each broker permits of each.

    That nothing can be written at ``closed_brokers`` is not for the topics to mend.
    """
    limited = 0
    for topic, by_broker in sorted(perms.items()):
        for word, bit in (("written", Perm.WRITE), ("read", Perm.READ)):
            closed = sorted(name for name, perm in by_broker.items() if not perm & bit)
            if bit is Perm.WRITE:
                closed = [name for name in closed if name not in closed_brokers]
            if closed:
                limited += 1
                where = "anywhere" if len(closed) == len(by_broker) else f"at {_names(closed)}"
                yield warning(
                    f"topic {topic}",
                    f"may not be {word} {where}",
                    f"if that is not meant: rocketpipe topic update {topic} --perm rw",
                )
    if not limited and not closed_brokers:
        yield ok("permissions of topics", f"{counted(len(perms), 'topic')}, all read and written")


# Groups


def subscriptions(group: str, wants: Mapping[str, Wants | None], *, pops: bool = False) -> Finding:
    """Whether all members of a group want the same; None is a member that did not say.

    Those of one that ``pops`` may each have topics of their own: they say with each question what
    they want, and only of one topic they have to want the same.
    """
    what = f"subscriptions of {group}"
    told = {member: wanted for member, wanted in wants.items() if wanted is not None}
    silent = sorted(set(wants) - set(told))
    if pops:
        topics = Counter(
            topic for topic, *_ in frozenset[tuple[str, str, str]]().union(*told.values())
        )
        told = {
            member: shared
            for member, wanted in told.items()
            if (shared := frozenset(each for each in wanted if topics[each[0]] > 1))
        }
    if len(set(told.values())) > 1:
        common = frozenset.intersection(*told.values())
        own = [f"{name} wants {_wanted(each - common)}" for name, each in sorted(told.items())]
        more = f"; and {len(own) - _MAX_NAMED} more members" if len(own) > _MAX_NAMED else ""
        return problem(
            what,
            "; ".join(own[:_MAX_NAMED]) + more,
            "give all members of a group the same subscriptions, or they lose messages",
        )
    if silent:
        return unknown(what, f"{len(silent)} of {len(wants)} members did not say: {_names(silent)}")
    return ok(what, f"the same at {counted(len(wants), 'member')}")


def wants_of(subscribed: Collection[tuple[str, str, str]]) -> Wants:
    """What counts when members are compared: their own retry topics do not."""
    return frozenset(each for each in subscribed if not is_retry_topic(each[0]))


def group_lag(
    group: str, lag: int | None, members: int | None, most: int, *, broadcast: bool = False
) -> Finding:
    """Whether a group keeps up, and whether anybody is there to."""
    what = f"group {group}"
    who = "unknown members" if members is None else counted(members, "member")
    if broadcast:
        return unknown(what, f"{who}; it broadcasts, and each member knows its own place")
    if lag is None:
        return unknown(what, f"{who}; it has committed nothing yet, so its lag is not known")
    detail = f"{counted(lag, 'message')} behind, {who}"
    if members == 0 and lag:
        remedy = f"start a consumer; or, if it is not needed: rocketpipe group delete {group}"
        return warning(what, detail, remedy)
    if lag > most:
        remedy = f"add members or make them faster: rocketpipe group lag {group} says where"
        return warning(what, detail, remedy)
    return ok(what, detail)


def dead_letters(group: str, letters: int | None, replayed: int | None) -> Finding:
    """Whether a group has given up messages that nobody has done anything about."""
    what = f"dead letters of {group}"
    if letters is None:
        return unknown(what, "their topic could not be looked at")
    if replayed == letters:
        return ok(what, f"{letters}, all replayed" if letters else "none")
    detail = counted(letters, "message")
    return warning(
        what,
        f"{detail}, {replayed} of them replayed" if replayed else detail,
        f"rocketpipe dlq show {group}; then, to try again: rocketpipe dlq replay {group} --all; "
        f"or, if they are not needed: rocketpipe dlq purge {group}",
    )


def users(
    supers: Collection[str], missing: Mapping[str, Collection[str]], open_to_all: Collection[str]
) -> Iterator[Finding]:
    """Whether users can be looked after, are known everywhere, and are asked for everywhere.

    ``supers`` are enabled and may do everything; ``missing`` are users by name, with the servers
    that lack them; ``open_to_all`` are servers without access control.
    """
    if len(supers) < 2:
        yield warning(
            "users who may do everything",
            f"{next(iter(supers), 'none')} alone: without its secret nobody could make another",
            "rocketpipe user create NAME --super, and keep its secret somewhere else",
        )
    else:
        yield ok("users who may do everything", f"{len(supers)} are enabled")
    for name in sorted(missing)[:_MAX_NAMED]:
        yield warning(
            f"user {name}",
            f"is not known at {', '.join(sorted(missing[name]))}",
            f"rocketpipe user create {name} --secret-file FILE, with the secret that it has",
        )
    if len(missing) > _MAX_NAMED:
        yield unknown("users", f"{len(missing) - _MAX_NAMED} more are not known everywhere")
    for server in sorted(open_to_all):
        yield problem(
            f"access to {server}",
            "whoever reaches it may do everything, though other servers ask for users",
            "set authenticationEnabled=true there too",
        )


def transactions(ages_ms: Collection[int] | None, most: int) -> Finding:
    """Whether transactions are forgotten, by the ages of those that are open; ``most`` are read."""
    what = "open transactions"
    if ages_ms is None:
        return unknown(what, "they could not be read")
    if not ages_ms:
        return ok(what, "none")
    count = f"{len(ages_ms)} or more" if len(ages_ms) >= most else str(len(ages_ms))
    oldest = f"the oldest since {max(ages_ms) // 1000} s"
    if max(ages_ms) >= OPEN_LONG_MS or len(ages_ms) >= most:
        return warning(
            what,
            f"{count}, {oldest}",
            "start a producer of their group: it is asked how they ended; or see rocketpipe "
            "transaction list, then commit or rollback in its place",
        )
    return ok(what, f"{count}, {oldest}")


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 broker``, ``2 brokers``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _names(names: Collection[str]) -> str:
    shown = list(names)[:_MAX_NAMED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more


def _wanted(wants: Wants) -> str:
    shown = [f"{topic} where {text}" for topic, _, text in sorted(wants)[:_MAX_NAMED]]
    return " and ".join(shown) or "no more than the others"


def _span(text: str) -> int | None:
    read, comma, end = text.partition(",")
    first, last = _whole(read), _whole(end)
    return max(0, last - first) if comma and first is not None and last is not None else None


def _whole(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _real(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
