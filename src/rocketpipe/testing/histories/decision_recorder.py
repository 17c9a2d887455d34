"""Records what is decided about messages after they were sent, beside all that a recorder does.

with record.sending("7", "orders", body, half=True) as sending:
    begun = await stack.enter_async_context(producer.transaction("orders", body, keys=["7"]))
    sending.stored(begun.sent)
with record.deciding("7", commit=True):
    await stack.aclose()

with record.staging("billing/17", "first try") as stage:
    async with producer.staged("billing", 17) as batch:
        stage.send("8", "bills", body)
        await batch.send("bills", body, keys=["8"])
        stage.commits()
    stage.committed()
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rocketpipe.errors import ReceiptExpired, RequestRejected
from rocketpipe.testing.histories.history import Phase, Received, Recorder, What, place_of

#: With these a broker says that it did not do what it was asked.
_REFUSED = (RequestRejected, ReceiptExpired)


class Staging:
    """One try at a batch."""

    def __init__(self, record: DecisionRecorder, batch: str, stage: str) -> None:
        """For ``DecisionRecorder.staging``."""
        self._record = record
        self._facts = {"name": batch, "stage": stage}
        self.is_committing = False
        self.is_committed = False

    def send(self, message_id: str, topic: str, body: bytes, *, tag: str = "") -> None:
        """Record that a message is staged, before it is."""
        self._record.note(
            What.SEND,
            Phase.INVOKE,
            id=message_id,
            topic=topic,
            crc=zlib.crc32(body),
            tag=tag,
            **self._facts,
        )

    def commits(self) -> None:
        """Record that from now on the batch may show: as the last thing inside its block."""
        self.is_committing = True
        self._record.note(What.COMMIT, Phase.INVOKE, **self._facts)

    def committed(self) -> None:
        """Record that the batch shows, by this try or by one before."""
        self.is_committed = True
        self._record.note(What.COMMIT, Phase.OK, **self._facts)


class DecisionRecorder(Recorder):
    """A recorder of transactions, recalls, pops and staged batches too."""

    @contextmanager
    def deciding(self, message_id: str, *, commit: bool) -> Iterator[None]:
        """Record that a transaction is committed, or rolled back, by the block."""
        with self._doing(What.DECIDE, id=message_id, commit=commit):
            yield

    def answering(self, message_id: str, *, commit: bool) -> None:
        """Record what a broker is told that asks about a transaction; it does not say it heard."""
        self.note(What.DECIDE, Phase.INVOKE, id=message_id, commit=commit)

    @contextmanager
    def recalling(self, message_id: str) -> Iterator[None]:
        """Record that the block takes back a message that waits for its moment."""
        with self._doing(What.RECALL, id=message_id):
            yield

    @contextmanager
    def acking(self, group: str, message: Received) -> Iterator[None]:
        """Record that the block acknowledges a popped message; it is handled then."""
        seen = place_of(group, message)
        try:
            with self._doing(What.ACK, **seen):
                yield
        except _REFUSED:
            self.note(What.HANDLE, Phase.FAIL, **seen)
            raise
        self.note(What.HANDLE, Phase.OK, **seen)

    @contextmanager
    def hiding(self, group: str, message: Received, until_ns: int) -> Iterator[None]:
        """Record that the block has a popped message hidden until another time."""
        with self._doing(What.HIDE, until_ns=until_ns, **place_of(group, message)):
            yield

    @contextmanager
    def staging(self, batch: str, stage: str) -> Iterator[Staging]:
        """Record one try at a batch; ``stage`` is that of no other try.

        A block that is left before ``commits`` leaves nothing behind that shows; one that is left
        between that and ``committed``, nobody knows what.
        """
        staging = Staging(self, batch, stage)
        try:
            yield staging
        finally:
            if staging.is_committing and not staging.is_committed:
                self.note(What.COMMIT, Phase.INFO, name=batch, stage=stage)

    @contextmanager
    def _doing(self, what: What, **facts: Any) -> Iterator[None]:
        self.note(what, Phase.INVOKE, **facts)
        phase = Phase.INFO
        try:
            yield
            phase = Phase.OK
        except _REFUSED:
            phase = Phase.FAIL
            raise
        finally:
            facts.pop("until_ns", None)
            self.note(what, phase, **facts)
