"""A batch whose messages ask for nothing but to be stored: all of them, and one more, as one group.

For what is stored later than it was sent. ``_plain_batch.pyx`` is the compiled twin, which has no
object for a message; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rocketpipe import compiled
from rocketpipe.broker.intake.sent_properties import usual_key
from rocketpipe.record.hot import split_batch
from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.puts import Encoded, Put

_new_tuple: Final = tuple.__new__


def plain_count(body: bytes) -> int:
    """How many messages a batch has; 0 if it is none, or one of them is not of the usual form."""
    messages = split_batch(body, len(body)) or ()
    return len(messages) if all(usual_key(raw) for _, _, raw in messages) else 0


class PutGroup:
    """Messages that are stored together; see `store.log.appender.Encodes`."""

    def __init__(self, puts: Sequence[Put]) -> None:
        self._puts = puts
        #: Where the last of them is, once there are records.
        self.last_record = -1

    def encode(self, appender: Appender, start: int, stored_ms: int) -> Encoded:
        """Make their records, as `Appender.encode` does.

        Raises:
            RocketPipeError: As there.
        """
        encoded = appender.encode([self._puts], start, stored_ms)
        self.last_record = encoded.last_record
        return encoded


class PlainBatch:
    """Makes records of a batch, as `PutGroup` does."""

    def __init__(self, body: bytes, like: Put, suffix: bytes, last: Put) -> None:
        """Take a batch of which `plain_count` has counted the messages.

        Topic, queue, flags, time and host are those of ``like``, and ``suffix`` goes behind the
        properties of each; ``last`` follows them in the same group.
        """
        self._body = body
        self._like = like
        self._suffix = suffix
        self._last = last
        #: Where ``last`` is, once there are records.
        self.last_record = -1

    def encode(self, appender: Appender, start: int, stored_ms: int) -> Encoded:
        """Make the records of all, as `Appender.encode` does.

        Raises:
            RocketPipeError: As there.
        """
        topic, queue_id, _, _, _, *rest = self._like
        puts = [
            _new_tuple(
                Put,
                (
                    topic,
                    queue_id,
                    body,
                    raw + self._suffix if raw[-1] == 2 else b"%b\x02%b" % (raw, self._suffix),
                    flag,
                    *rest,
                ),
            )
            for flag, body, raw in split_batch(self._body, len(self._body)) or ()
        ]
        group = PutGroup([*puts, self._last])
        encoded = group.encode(appender, start, stored_ms)
        self.last_record = group.last_record
        return encoded


compiled.take_over(globals(), "rocketpipe.broker.intake._plain_batch")
