"""Whether messages were shown as was decided about them.

    half             handled, and nobody had decided about it by then
    rolled back      handled, although its producer had rolled it back
    recalled         handled, although it was taken back
    acked            came to a group again that pops, after it was acknowledged
    hidden           came to a group again that pops, before its time was over
    uncommitted      handled, and nobody had asked for its stage to show by then
    torn             not handled by a group that wants it, and others of its stage were handled
    batch twice      two tries at one batch were both handled

A decision, a recall or a commit of which nobody knows whether it came through may count or not. One
that a broker acknowledged counts, whatever broke. A consumer that pushes acknowledges for its
handler when that is done: there something that broke in between is a cause to come again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rocketpipe.model.names import RETRY_PREFIX
from rocketpipe.testing.histories.decisions import Stage
from rocketpipe.testing.histories.facts import Anomaly, Delivery, Facts, Group
from rocketpipe.testing.histories.history import Phase


def decisions_kept(facts: Facts, *, drained: bool) -> Iterator[Anomaly]:
    """Find what was shown otherwise than was decided; ``drained`` as by ``check``."""
    for delivery in facts.deliveries:
        yield from _decided(facts, delivery)
    for group in facts.groups.values():
        if group.popped:
            yield from _popped(facts, group)
    shown = {delivery.id for delivery in facts.deliveries}
    for batch, stages in facts.fates.batches().items():
        yield from _batch(facts, batch, stages, shown, drained=drained)


def _decided(facts: Facts, delivery: Delivery) -> Iterator[Anomaly]:
    sent = facts.sends.get(delivery.id)
    if sent is None:
        return
    fates = facts.fates
    if sent.half and (shows := fates.decided_by(sent.id, delivery.at_ns)) is not True:
        kind, why = ("half", "nobody had decided") if shows is None else ("rolled back", "it was")
        yield Anomaly(kind, f"{delivery}, and {why}")
    # A send that went twice may have left two, of which a recall takes one.
    if fates.is_recalled(sent.id) and facts.copies(sent) == 1:
        yield Anomaly("recalled", f"{delivery} was taken back")
    if sent.stage:
        commit = fates.stages[sent.stage].commit
        if commit is None or delivery.at_ns < commit.at_ns:
            yield Anomaly("uncommitted", f"{delivery} of stage {sent.stage}")


# What is popped


def _popped(facts: Facts, group: Group) -> Iterator[Anomaly]:
    """What comes again comes from the same place, or is a copy that the broker made for that."""
    earlier: defaultdict[str, list[Delivery]] = defaultdict(list)
    for delivery in facts.of_group(group.name):
        sent = facts.sends.get(delivery.id)
        may_be_copied = delivery.place[0].startswith(RETRY_PREFIX)
        may_be_copied &= sent is not None and facts.copies(sent) == 1
        for before in reversed(earlier[delivery.id]):
            if before.place != delivery.place and not may_be_copied:
                continue
            if _is_done_with(facts, before, delivery):
                yield Anomaly("acked", f"{delivery} after {before}")
                break
            if delivery.at_ns < _hidden_until(facts, before, delivery.at_ns):
                yield Anomaly("hidden", f"{delivery} was {before}")
                break
        earlier[delivery.id].append(delivery)


def _is_done_with(facts: Facts, before: Delivery, again: Delivery) -> bool:
    by = before.who, before.place
    acks = [ack for ack in facts.fates.acks(before.group, before.id) if (ack.who, ack.place) == by]
    if acks:  # one that came too late, or that nobody answered, does not count
        return any(ack.is_done_by(again.at_ns) for ack in acks)
    if before.until_ns or before.end is not Phase.OK or before.end_ns is None:
        return False
    return (
        before.end_ns <= again.at_ns
        and not facts.faulty(before.at_ns, again.at_ns, again.place[0])
        and not facts.killed_between(before.who, before.at_ns, again.at_ns)
    )


def _hidden_until(facts: Facts, delivery: Delivery, now_ns: int) -> int:
    """Until when nobody else should get it, by what was known at a time; 0 if that is not known."""
    until_ns = delivery.until_ns
    for hide in facts.fates.hides(delivery.group, delivery.id):
        if (hide.who, hide.place) != (delivery.who, delivery.place) or hide.at_ns > now_ns:
            continue
        if hide.is_done_by(now_ns):
            until_ns = hide.until_ns
        elif hide.end is not Phase.FAIL:
            until_ns = min(until_ns, hide.until_ns)
    return until_ns


# Batches


def _batch(
    facts: Facts, batch: str, stages: list[Stage], shown: set[str], *, drained: bool
) -> Iterator[Anomaly]:
    seen = [stage for stage in stages if not shown.isdisjoint(stage.ids)]
    if len(seen) > 1:
        names = ", ".join(stage.name for stage in seen)
        yield Anomaly("batch twice", f"{batch} by {names}")
    if not drained:
        return
    for stage in seen:
        yield from _torn(facts, stage)
    acknowledged = [stage for stage in stages if stage.is_acknowledged and stage.ids]
    if acknowledged and not seen and _is_wanted(facts, acknowledged[0]):
        yield Anomaly("lost", f"batch {batch}, committed by {acknowledged[0].name}")


def _torn(facts: Facts, stage: Stage) -> Iterator[Anomaly]:
    for group in facts.groups.values():
        if group.broadcast or group.dead_letters_of is not None:
            continue
        done = facts.done_with(group.name)
        done |= facts.dead_letters(group.name) | facts.given_up(group.name)
        for message_id in stage.ids:
            sent = facts.sends[message_id]
            if group.wants(sent.topic, sent.tag) and message_id not in done:
                yield Anomaly(
                    "torn", f"{message_id} of {stage.name}, never handled by {group.name}"
                )


def _is_wanted(facts: Facts, stage: Stage) -> bool:
    sends = [facts.sends[message_id] for message_id in stage.ids]
    return any(
        group.wants(sent.topic, sent.tag) for group in facts.groups.values() for sent in sends
    )
