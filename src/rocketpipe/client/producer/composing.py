"""What users say of a message, made into what goes out."""

from __future__ import annotations

import os
from threading import get_ident
from typing import Any, Final
from weakref import WeakSet

from rocketpipe.client.producer.parts import MessageFields, message_of
from rocketpipe.client.producer.selectors import Pick, Selector, pick_of
from rocketpipe.client.producer.sending.outgoing import Checks, Outgoing
from rocketpipe.client.session import Session
from rocketpipe.errors import SessionClosed, WrongThread
from rocketpipe.model.message import Message
from rocketpipe.model.route import MessageQueue

_NO_PARTS: Final[MessageFields] = {}
#: A thread that is none: what was open before a fork is open nowhere in the child.
_OF_PARENT: Final = -1


class Composer:
    """Takes messages while its producer is open: checks them, and gives them ids and times."""

    def __init__(self, checks: Checks, session: Session) -> None:
        self.checks = checks
        self._session = session
        self._clock = session.clock
        #: Where messages are taken; 0 where nobody's are.
        self.thread_id = 0

    def open(self) -> None:
        """Take messages from now on, of this thread."""
        self.thread_id = get_ident()
        _open.add(self)

    def close(self) -> None:
        """Take no more."""
        self.thread_id = 0
        _open.discard(self)

    def check_open(self) -> None:
        """Refuse what comes before the producer is opened, after it is closed, or from elsewhere.

        Raises:
            SessionClosed: If it is not open.
            ProcessForked: If it is open in the parent of this process.
            WrongThread: If it is open in another thread.
        """
        if self._session.is_of_parent:
            self._session.check_open()
        if not self.thread_id:
            raise SessionClosed("the producer")
        if get_ident() != self.thread_id:
            raise WrongThread

    def take(
        self,
        topic: str | Message,
        body: bytes = b"",
        parts: MessageFields = _NO_PARTS,
    ) -> Outgoing:
        """A message that may be sent, on its way.

        Raises:
            SessionClosed, WrongThread, ProcessForked: If the producer is not open, or not here.
            InvalidName: If no topic may have this name, or only brokers write to it.
            PropertiesError: If a tag, key or property could not be read back.
            MessageRefused: If the body is empty or too long.
        """
        if get_ident() != self.thread_id:
            self.check_open()
        now_ms = self._clock.now_ms()
        text = self.checks.plain.find(topic, body, parts)
        if text is not None:
            assert isinstance(topic, str), "what is plain is given in parts"
            message_id = self._session.keys.next(now_ms)
            return Outgoing.of_plain(topic, body, parts, text, message_id, now_ms)
        message = message_of(topic, body, parts)
        self.checks.check_topic(message.topic)
        message_id = self._session.keys.next(now_ms)
        return Outgoing(message, message_id, now_ms, self.checks.max_bytes)


def pick_for(
    out: Outgoing, queue: MessageQueue | None, order_by: Any, selector: Selector | None
) -> Pick | None:
    """What a sender said about where its message goes; asked for its message only if it did."""
    if queue is None and order_by is None and selector is None:
        return None
    return pick_of(out.message, queue, order_by, selector)


_open: Final[WeakSet[Composer]] = WeakSet()


def _forked() -> None:
    for intake in list(_open):
        intake.thread_id = _OF_PARENT
    _open.clear()


os.register_at_fork(after_in_child=_forked)
