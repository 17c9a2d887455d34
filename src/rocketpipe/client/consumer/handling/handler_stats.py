"""How fast a consumer's handlers were in the last minute."""

from __future__ import annotations

from typing import Final

from rocketpipe.client.consumer.outcome import Outcome
from rocketpipe.clock import Clock
from rocketpipe.protocol.requests.running import ConsumeRates

_STEP_MS: Final = 10_000
_STEPS: Final = 6


class HandlerStats:
    """What handlers were given in the last minute, by topic, and how it went."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: For each topic and step of ten seconds: done, failed, and the milliseconds they took.
        self._steps: dict[str, dict[int, list[int]]] = {}
        self._failed: dict[str, int] = {}

    @property
    def now_ms(self) -> int:
        """The time by which calls are measured."""
        return self._clock.monotonic_ms()

    def count(self, topic: str, outcome: Outcome, given: int, spent_ms: int) -> None:
        """Note a call of a handler with so many messages."""
        steps = self._steps.setdefault(topic, {})
        step = self._clock.monotonic_ms() // _STEP_MS
        cell = steps.get(step)
        if cell is None:
            for old in [each for each in steps if each <= step - _STEPS]:
                del steps[old]
            cell = steps[step] = [0, 0, 0]
        cell[0] += outcome.done
        cell[1] += given - outcome.done
        cell[2] += spent_ms
        if outcome.done < given:
            self._failed[topic] = self._failed.get(topic, 0) + given - outcome.done

    def rates(self) -> dict[str, ConsumeRates]:
        """How fast each topic was handled."""
        now_ms = self._clock.monotonic_ms()
        oldest = now_ms // _STEP_MS - _STEPS + 1
        seconds = ((_STEPS - 1) * _STEP_MS + now_ms % _STEP_MS) / 1000
        found = {}
        for topic, steps in self._steps.items():
            cells = [cell for step, cell in steps.items() if step >= oldest]
            done, failed, spent_ms = (sum(cell[at] for cell in cells) for at in range(3))
            found[topic] = ConsumeRates(
                consume_rt=spent_ms / (done + failed) if done + failed else 0.0,
                consume_ok_tps=done / seconds,
                consume_failed_tps=failed / seconds,
                consume_failed_msgs=self._failed.get(topic, 0),
            )
        return found
