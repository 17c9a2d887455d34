"""Sends that observers are told of: they see messages before they are sent, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from rocketpipe.client.observers import Sending, observed
from rocketpipe.client.producer.composing import Composer
from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.selectors import Pick
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.client.producer.sending.sender import Sender
from rocketpipe.client.session import Session
from rocketpipe.model.message import Message


class ObservedSends:
    """Sends in blocks of the session's observers."""

    def __init__(self, session: Session, group: str, intake: Composer, sender: Sender) -> None:
        self._session = session
        self._group = group
        self._intake = intake
        self._sender = sender

    @classmethod
    def of(
        cls, session: Session, group: str, intake: Composer, sender: Sender
    ) -> ObservedSends | None:
        """Those of a session that has observers; None if it has none."""
        return cls(session, group, intake, sender) if session.observers else None

    async def send(
        self, message: Message, left_ms: int, pick: Callable[[Outgoing], Pick | None]
    ) -> SendResult:
        """Send one message; see `Producer.send`."""
        with self._observed([message]) as sending:
            out = self._intake.take(sending.messages[0])
            left_ms = await self._sender.enter(out.size, left_ms)
            result = await self._sender.send(out, left_ms, pick(out))
            sending.results = (result,)
        return result

    async def send_batch(
        self, messages: Sequence[Message], left_ms: int, pick: Pick | None
    ) -> tuple[SendResult, ...]:
        """Send messages together; see `Producer.send_batch`."""
        with self._observed(list(messages)) as sending:
            parts = [self._intake.take(message) for message in sending.messages]
            results = tuple(await self._sender.send_batch(parts, left_ms, pick))
            sending.results = results
        return results

    def take(self, message: Message) -> Outgoing:
        """A message whose answer nobody waits for in the block, with what observers add to it."""
        with self._observed([message]) as sending:
            return self._intake.take(sending.messages[0])

    def _observed(self, messages: list[Message]) -> AbstractContextManager[Sending]:
        session = self._session
        return observed(session.observers, Sending(session.client_id, self._group, messages))
