"""What a staged part holds: messages, as their topics get them."""

from __future__ import annotations

from collections.abc import Sequence

from rocketpipe.broker.delivery.deferral import Deferral
from rocketpipe.broker.features.staging.records import Part
from rocketpipe.broker.intake.plain_batch import PlainBatch, PutGroup, plain_count
from rocketpipe.broker.intake.sent_properties import BrokerProperties, SendOptions, is_plain
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.record.batch import split_batch
from rocketpipe.store.log.puts import Put


class StagedMessages:
    """Makes of a part the messages that it holds."""

    def __init__(
        self, stamp: BrokerProperties, deferral: Deferral, max_bytes: int, *, unlimited: Deferral
    ) -> None:
        """``unlimited`` parks what was taken before, however far away it is."""
        self._stamp = stamp
        self._deferral = deferral
        self._max_bytes = max_bytes
        self._unlimited = unlimited

    def limit(self, max_bytes: int) -> None:
        """Take parts of so many bytes at most from now on."""
        self._max_bytes = max_bytes

    def are_plain(self, part: Part) -> bool:
        """Whether all messages of a part ask for nothing but to be stored, and are short enough."""
        return len(part.body) <= self._max_bytes and plain_count(part.body) > 0

    def checked(self, part: Part) -> Sequence[Put]:
        """The messages of a part that is to be staged, as they will be stored.

        Raises:
            RecordError: The body is no batch, or too long.
            RequestRejected: One of them asks for what cannot be done.
        """
        return self._puts(part, self._max_bytes, self._deferral)

    def group(self, part: Part, last: Put, *, is_plain: bool) -> PlainBatch | PutGroup:
        """The messages as their topics get them, those that are delayed as they wait, and ``last``.

        What was staged was checked then. It shows also where the settings say otherwise by now.
        ``is_plain`` says that `are_plain` held of it, so that nobody has to look again.
        """
        if is_plain or plain_count(part.body):
            return PlainBatch(part.body, _like(part), self._stamp.suffix, last)
        return PutGroup([*self._puts(part, len(part.body), self._unlimited), last])

    def _puts(self, part: Part, max_bytes: int, deferral: Deferral) -> list[Put]:
        puts = []
        like = _like(part)
        for flag, body, text in split_batch(part.body, max_bytes):
            waits = False
            new_key = None
            if not is_plain(text):
                wishes = SendOptions.of(properties.decode_bytes(text))
                if wishes.is_half:
                    raise illegal("a staged message may not be a half one: its commit decides")
                waits = wishes.delay_level > 0 or wishes.timer is not None
                new_key = None if wishes.unique_key else self._stamp.new_key()
            put = like._replace(body=body, flag=flag, properties=self._stamp.stamped(text, new_key))
            puts.append(deferral.parked(put) if waits else put)
        return puts


def _like(part: Part) -> Put:
    """What the messages of a part have in common."""
    return Put(
        topic=part.topic,
        queue_id=part.queue_id,
        body=b"",
        properties=b"",
        flag=0,
        sys_flag=part.sys_flag,
        born_ms=part.born_ms,
        born_host=part.born_host,
    )


def illegal(remark: str) -> RequestRejected:
    """The refusal of what is no message that can be staged."""
    return RequestRejected(ResponseCode.MESSAGE_ILLEGAL, remark)
