"""Reads a history and names all that must not be in it.

    lost             stored, and never handled by a group that wants it
    missed           stored while a broadcast member was there, and never handled by it
    phantom          handled, and never sent
    refused          handled, although every attempt to send it certainly failed
    altered          handled with another body, or tag, than it was sent with
    unwanted         handled by a group that does not want its topic or tag
    early            handled before it was due
    stored twice     in more places than its sends with an unknown end explain
    two at one place a queue's offset that has had two messages
    offset went back stored at or before the place of one that was stored before it was sent
    repeated         handled again without a cause
    stranger         handled by a member whose share never had its queue
    overlap          two handlers of an ordered group in one queue at a time
    out of order     handled by an ordered group before what was sent, or stored, before it
    not dead         failed in all its attempts, and not among the dead letters
    dead             a dead letter that had attempts left, or was handled

A message may come again when its handler failed or never ended, when its queue changed hands, or
when something broke that lets it (``FAULT`` with ``repeats``). An ordered group changes hands under
a lock, so that only a death or a fault is a cause there. Among other groups a member that closes
saves its offsets: whoever gets its queue afterwards, and nobody had it in between, gets none of
what it had handled.

What a transaction, a recall, an acknowledgement or a batch promises is in ``decision_checks``.

With ids that are unique and offsets that servers give there is nothing to search for: each check
goes through the history once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from rocketpipe.model.names import DLQ_PREFIX, RETRY_PREFIX
from rocketpipe.testing.histories.decision_checks import decisions_kept
from rocketpipe.testing.histories.facts import Anomaly, Delivery, Facts, Group, Place, holder_at
from rocketpipe.testing.histories.history import Event, Phase

#: So many of a kind are told; one is enough to look for its cause.
EXAMPLES: Final = 10


class HistoryBroken(AssertionError):
    """Something is in a history that must not be; the message names it."""


def check(events: Iterable[Event], *, drained: bool = True) -> list[Anomaly]:
    """Find all anomalies of a history; none is the good news.

    ``drained`` is whether members were given the time to handle everything, and no transaction is
    open any more: what was not handled then is lost.
    """
    facts = Facts.of(events)
    found = [*_contents(facts), *_places(facts), *_repeats(facts), *_ordered(facts)]
    found += decisions_kept(facts, drained=drained)
    if drained:
        found += [*_lost(facts), *_missed(facts)]
    return [*found, *_dead_letters(facts, drained=drained)]


def assert_clean(events: Sequence[Event], *, drained: bool = True) -> None:
    """Raise if a history has anomalies.

    Raises:
        HistoryBroken: It names up to ten of each kind.
    """
    found = check(events, drained=drained)
    if not found:
        return
    counts = Counter(anomaly.kind for anomaly in found)
    told: Counter[str] = Counter()
    lines = [f"{len(events)} events: " + ", ".join(f"{n} x {kind}" for kind, n in counts.items())]
    for anomaly in found:
        told[anomaly.kind] += 1
        if told[anomaly.kind] <= EXAMPLES:
            lines.append(str(anomaly))
    raise HistoryBroken("\n  ".join(lines))


# What is handled


def _contents(facts: Facts) -> Iterator[Anomaly]:
    for delivery in facts.deliveries:
        sent = facts.sends.get(delivery.id)
        if sent is None:
            yield Anomaly("phantom", f"{delivery} was never sent")
            continue
        if all(attempt.end is Phase.FAIL for attempt in sent.attempts):
            yield Anomaly("refused", f"{delivery}, and every send of it failed")
        if (delivery.crc, delivery.tag) != (sent.crc, sent.tag):
            yield Anomaly("altered", f"{delivery}: not the body or the tag that was sent")
        if delivery.at_ns < sent.due_ns:
            yield Anomaly("early", f"{delivery} {sent.due_ns - delivery.at_ns} ns before its time")
        group = facts.groups[delivery.group]
        if group.dead_letters_of is None and not group.wants(delivery.topic, delivery.tag):
            yield Anomaly("unwanted", f"{delivery}: topic {delivery.topic} tag {delivery.tag!r}")


def _lost(facts: Facts) -> Iterator[Anomaly]:
    for group in facts.groups.values():
        if group.broadcast or group.dead_letters_of is not None:
            continue
        handled = facts.done_with(group.name)
        dead = facts.dead_letters(group.name)
        given_up = facts.given_up(group.name)
        for sent in facts.owed():
            if not group.wants(sent.topic, sent.tag) or sent.id in handled:
                continue
            if sent.id not in dead and sent.id not in given_up:
                yield Anomaly("lost", f"{sent} never handled by {group.name}")


def _missed(facts: Facts) -> Iterator[Anomaly]:
    for group in facts.groups.values():
        if not group.broadcast:
            continue
        handled = {(d.who, d.id) for d in facts.of_group(group.name)}
        for member, (joined_ns, left_ns) in group.members.items():
            for sent in facts.owed():
                if not group.wants(sent.topic, sent.tag) or (member, sent.id) in handled:
                    continue
                # Who left may or may not have had time for it.
                if joined_ns < sent.first_ns and left_ns is None:
                    yield Anomaly("missed", f"{sent} by {member} of {group.name}")


# Where it is stored


def _places(facts: Facts) -> Iterator[Anomaly]:
    at: dict[Place, str] = {}
    places: defaultdict[str, set[Place]] = defaultdict(set)
    for place, message_id in facts.seen_at():
        if at.setdefault(place, message_id) != message_id:
            yield Anomaly("two at one place", f"{place}: {at[place]} and {message_id}")
        # Retries and dead letters are copies that brokers make.
        if not place[0].startswith((RETRY_PREFIX, DLQ_PREFIX)):
            places[message_id].add(place)
    for message_id, copies in places.items():
        sent = facts.sends.get(message_id)
        if sent is not None and len(copies) > facts.copies(sent):
            yield Anomaly("stored twice", f"{message_id} at {sorted(copies)}")
    yield from _went_back(facts)


def _went_back(facts: Facts) -> Iterator[Anomaly]:
    """Compare each place with the furthest one that was known when its send began."""
    moments: list[tuple[int, bool, Place, str]] = []
    for sent in facts.sends.values():
        for attempt in sent.attempts:
            if attempt.place is not None and attempt.end_ns is not None:
                moments.append((attempt.at_ns, False, attempt.place, sent.id))
                moments.append((attempt.end_ns, True, attempt.place, sent.id))
    furthest: dict[str, int] = {}
    for _, is_end, (queue, offset), message_id in sorted(moments):
        if is_end:
            furthest[queue] = max(furthest.get(queue, -1), offset)
        elif offset <= furthest.get(queue, -1):
            what = f"{message_id} at {offset} of {queue}, which had come to {furthest[queue]}"
            yield Anomaly("offset went back", what)


# What comes again


def _repeats(facts: Facts) -> Iterator[Anomaly]:
    last: dict[tuple[str, str, Place], Delivery] = {}
    for delivery in facts.deliveries:
        group = facts.groups[delivery.group]
        if group.popped:
            continue  # there acknowledgements count, and not who has a queue
        if facts.has_shares(delivery) and holder_at(facts.holdings(delivery), delivery) is None:
            yield Anomaly("stranger", f"{delivery}, whose share never had that queue")
        # Of a broadcast group every member has a place of its own in each queue.
        reader = delivery.who if group.broadcast else ""
        before = last.get((group.name, reader, delivery.place))
        last[group.name, reader, delivery.place] = delivery
        if before is not None and not _has_cause(facts, before, delivery):
            yield Anomaly("repeated", f"{delivery} after {before}")


def _has_cause(facts: Facts, before: Delivery, again: Delivery) -> bool:
    """Whether what was handled may be handled again."""
    if before.end is not Phase.OK or facts.faulty(before.at_ns, again.at_ns, again.place[0]):
        return True
    if facts.killed_between(before.who, before.at_ns, again.at_ns):
        return True
    group = facts.groups[again.group]
    if group.ordered or group.broadcast:
        return False
    holdings = facts.holdings(again)
    gained, earlier = holder_at(holdings, again), holder_at(holdings, before)
    if before.who == again.who:
        return gained is not earlier  # it lost the queue, and got it back
    if gained is None or earlier is None:
        return True  # one of them is a stranger, and told as such, or recorded no shares
    if not earlier.left_well or earlier.until_ns is None or earlier.until_ns >= gained.from_ns:
        return True
    return any(
        held.who != before.who
        and held is not gained
        and held.overlaps(before.at_ns, gained.from_ns)
        for held in holdings
    )


# Order


def _ordered(facts: Facts) -> Iterator[Anomaly]:
    for group in facts.groups.values():
        if group.ordered and not group.broadcast:
            deliveries = facts.of_group(group.name)
            yield from _overlaps(facts, deliveries)
            yield from _out_of_order(facts, group, deliveries)


def _overlaps(facts: Facts, deliveries: Sequence[Delivery]) -> Iterator[Anomaly]:
    inside: dict[str, Delivery] = {}
    for delivery in deliveries:
        other = inside.get(delivery.place[0])
        if other is not None:
            end_ns = facts.end_of(other)
            if end_ns is None or end_ns > delivery.at_ns:
                yield Anomaly("overlap", f"{delivery} began while {other} went on")
        inside[delivery.place[0]] = delivery


def _out_of_order(facts: Facts, group: Group, deliveries: Sequence[Delivery]) -> Iterator[Anomaly]:
    """Nothing is handled before all that is before it, in its queue or of its key, was handled."""
    given_up = facts.dead_letters(group.name) | facts.given_up(group.name)
    before = _predecessors(facts, group)
    done: dict[str, int] = {}
    for delivery in deliveries:
        if delivery.end is Phase.OK and delivery.end_ns is not None:
            done[delivery.id] = min(delivery.end_ns, done.get(delivery.id, delivery.end_ns))
    for delivery in deliveries:
        for first in before.get(delivery.place, ()):
            if first in given_up:
                continue
            ended_ns = done.get(first)
            if ended_ns is None or ended_ns > delivery.at_ns:
                yield Anomaly("out of order", f"{delivery} before {first}")


def _predecessors(facts: Facts, group: Group) -> dict[Place, list[str]]:
    """For each place the message stored before it in its queue, and that sent before with its key.

    Only those that the group wants. A key stays with its queue while a topic has the same queues:
    only there its order is promised.
    """
    by_queue: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    before: defaultdict[Place, list[str]] = defaultdict(list)
    of_key: dict[tuple[str, str, str], tuple[int, str]] = {}
    wanted = (sent for sent in facts.stored() if group.wants(sent.topic, sent.tag))
    for sent in sorted(wanted, key=lambda sent: sent.first_ns):
        for attempt in sent.attempts:
            if attempt.place is None or attempt.end_ns is None:
                continue
            queue, offset = attempt.place
            by_queue[queue].append((offset, sent.id))
            if sent.key:
                line = (attempt.who, sent.key, queue)
                earlier = of_key.get(line)
                if earlier is not None and earlier[0] <= attempt.at_ns:
                    before[attempt.place].append(earlier[1])
                of_key[line] = (attempt.end_ns, sent.id)
    for queue, places in by_queue.items():
        places.sort()
        for (_, first), (offset, _) in pairwise(places):
            before[queue, offset].append(first)
    return before


# What is given up


def _dead_letters(facts: Facts, *, drained: bool) -> Iterator[Anomaly]:
    for group in facts.groups.values():
        reader = facts.reader_of_dead(group.name)
        if group.max_retries is None or reader is None:
            continue
        dead, given_up = facts.dead_letters(group.name), facts.given_up(group.name)
        handled = {d.id for d in facts.of_group(group.name) if d.end is Phase.OK}
        if drained:
            for message_id in sorted(given_up - dead - handled):
                yield Anomaly("not dead", f"{message_id} failed in all attempts of {group.name}")
        for message_id in sorted(dead - given_up):
            why = "was handled" if message_id in handled else "had attempts left"
            yield Anomaly("dead", f"{message_id} of {group.name} {why}")
