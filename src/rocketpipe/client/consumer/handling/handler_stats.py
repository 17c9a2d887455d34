"""How fast a consumer's handlers were in the last minute."""

from __future__ import annotations

from typing import Final

from rocketpipe.clock import Clock
from rocketpipe.protocol.requests.running import ConsumeRates

_STEP_MS: Final = 10_000
_STEPS: Final = 6


class HandlerStats:
    """What handlers were given in the last minute, by topic, and how it went."""

    def __init__(self, clock: Clock) -> None:
        #: The time by which calls are measured.
        self.now_ms: Final = clock.monotonic_ms
        #: For each topic and step of ten seconds: done, failed, and the milliseconds they took.
        self._steps: dict[str, dict[int, list[int]]] = {}
        self._failed: dict[str, int] = {}
        #: Where the last call was counted: the next one mostly is too.
        self._topic, self._step = "", -1
        self._cell = [0, 0, 0]

    def count(self, topic: str, done: int, given: int, began_ms: int) -> None:
        """Note a call of a handler that is done with so many of the messages that it was given."""
        now_ms = self.now_ms()
        step = now_ms // _STEP_MS
        if step != self._step or topic != self._topic:
            self._step, self._topic = step, topic
            self._cell = self._cell_of(topic, step)
        cell = self._cell
        cell[0] += done
        cell[2] += now_ms - began_ms
        if done < given:
            cell[1] += given - done
            self._failed[topic] = self._failed.get(topic, 0) + given - done

    def _cell_of(self, topic: str, step: int) -> list[int]:
        steps = self._steps.setdefault(topic, {})
        cell = steps.get(step)
        if cell is None:
            for old in [each for each in steps if each <= step - _STEPS]:
                del steps[old]
            cell = steps[step] = [0, 0, 0]
        return cell

    def rates(self) -> dict[str, ConsumeRates]:
        """How fast each topic was handled."""
        now_ms = self.now_ms()
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
