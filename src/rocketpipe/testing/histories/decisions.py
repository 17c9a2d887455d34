"""What became of messages after they were sent: decisions, recalls, acknowledgements, batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from rocketpipe.testing.histories.history import Event, Phase, What


@dataclass(slots=True, eq=False)
class Decision:
    """Something that was asked of a broker; ``end`` stays ``INFO`` if nobody knows what it did."""

    who: str
    at_ns: int
    commit: bool = False
    until_ns: int = 0
    place: tuple[str, int] = ("", -1)
    end: Phase = Phase.INFO
    end_ns: int | None = None

    def is_done_by(self, at_ns: int) -> bool:
        """Whether the broker had said by then that it is done."""
        return self.end is Phase.OK and self.end_ns is not None and self.end_ns <= at_ns


@dataclass(slots=True, eq=False)
class Stage:
    """One try at a batch; ``commit`` is None while nobody asked for it to show."""

    name: str
    batch: str
    ids: list[str] = field(default_factory=list)
    commit: Decision | None = None

    @property
    def is_acknowledged(self) -> bool:
        """Whether a broker said that the batch shows: by this try, or by one before."""
        return self.commit is not None and self.commit.end is Phase.OK


class Decisions:
    """The deeds of a history, for checks to look up."""

    def __init__(self) -> None:
        self.stages: dict[str, Stage] = {}
        self._decisions: defaultdict[str, list[Decision]] = defaultdict(list)
        self._recalls: defaultdict[str, list[Decision]] = defaultdict(list)
        self._acks: defaultdict[tuple[str, str], list[Decision]] = defaultdict(list)
        self._hides: defaultdict[tuple[str, str], list[Decision]] = defaultdict(list)

    # Questions

    def is_committed(self, message_id: str) -> bool:
        """Whether a half message has to show, once nobody is asked about it any more.

        Its producer wants it to, and never wanted anything else.
        """
        meant = {deed.commit for deed in self._meant(message_id)}
        return meant == {True}

    def decided_by(self, message_id: str, at_ns: int) -> bool | None:
        """What was decided about a half message by then, if anything: whether it shows.

        Of what was asked for, either may count that was not refused; what a broker said counts.
        """
        meant = [deed for deed in self._meant(message_id) if deed.at_ns <= at_ns]
        if not meant:
            return None
        told = any(not deed.commit and deed.end is Phase.OK for deed in meant)
        return not told and any(deed.commit for deed in meant)

    def is_recalled(self, message_id: str) -> bool:
        """Whether a broker said that it was taken back."""
        return any(deed.end is Phase.OK for deed in self._recalls.get(message_id, ()))

    def may_be_recalled(self, message_id: str) -> bool:
        """Whether it was taken back, or perhaps was."""
        return any(deed.end is not Phase.FAIL for deed in self._recalls.get(message_id, ()))

    def acks(self, group: str, message_id: str) -> Sequence[Decision]:
        """How often somebody of a group acknowledged it."""
        return self._acks.get((group, message_id), ())

    def may_be_acked(self, group: str) -> set[str]:
        """The ids of what somebody of a group acknowledged, or perhaps did."""
        return {
            message_id
            for (name, message_id), acks in self._acks.items()
            if name == group and any(ack.end is not Phase.FAIL for ack in acks)
        }

    def hides(self, group: str, message_id: str) -> Sequence[Decision]:
        """How often somebody of a group asked for another time to hide it for."""
        return self._hides.get((group, message_id), ())

    def batches(self) -> dict[str, list[Stage]]:
        """The tries at each batch."""
        found: defaultdict[str, list[Stage]] = defaultdict(list)
        for stage in self.stages.values():
            found[stage.batch].append(stage)
        return found

    def _meant(self, message_id: str) -> list[Decision]:
        """The decisions that were not refused; of several the first one counts."""
        return [deed for deed in self._decisions.get(message_id, ()) if deed.end is not Phase.FAIL]

    # Events

    def take(self, event: Event) -> None:
        """Note an event; they come in the order of time."""
        if event.what is What.COMMIT:
            stage = self.stage(event)
            if event.phase is Phase.INVOKE:
                stage.commit = Decision(event.who, event.at_ns)
            elif stage.commit is not None:
                stage.commit.end, stage.commit.end_ns = event.phase, event.at_ns
            return
        deeds = self._deeds(event)
        place = event.queue, event.offset
        if event.phase is Phase.INVOKE:
            deeds.append(Decision(event.who, event.at_ns, event.commit, event.until_ns, place))
            return
        asked = event.who, place, event.commit, None
        for deed in reversed(deeds):
            if (deed.who, deed.place, deed.commit, deed.end_ns) == asked:
                deed.end, deed.end_ns = event.phase, event.at_ns
                return

    def stage(self, event: Event) -> Stage:
        """The stage that an event is about."""
        return self.stages.setdefault(event.stage, Stage(event.stage, event.name))

    def _deeds(self, event: Event) -> list[Decision]:
        if event.what is What.DECIDE:
            return self._decisions[event.id]
        if event.what is What.RECALL:
            return self._recalls[event.id]
        of_group = self._acks if event.what is What.ACK else self._hides
        return of_group[event.group, event.id]
