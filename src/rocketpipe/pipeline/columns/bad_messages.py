"""Messages that cannot be made rows, and what becomes of them: the option ``onBadMessage``.

    fail        the query ends, and its error names the message
    null        the row is there: without its body, if that is all that is damaged; else with
                nothing but topic, broker, queue and offset
    skip        the row is left out, and the log says so
    quarantine  the same, and the bytes of the record are kept in ``quarantinePath``:

                <topic>/<broker>-<queue>-<offset>.record   as they were read, which may be none
                <topic>/<broker>-<queue>-<offset>.json     where it was, and what is wrong with it

A message keeps its file names however often a task is tried: it is kept once.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from rocketpipe.errors import RecordError
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.columns.rows import UnreadableMessage
from rocketpipe.pipeline.options.read import OnBadMessage
from rocketpipe.record.codec import RecordView
from rocketpipe.remoting.log_budget import LogBudget

if TYPE_CHECKING:
    from rocketpipe.pipeline.columns.byte_runs import Ints

log = logging.getLogger("rocketpipe.pipeline")

_budget: Final = LogBudget()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One message that cannot be read: where it is, why, and its bytes as far as there are any."""

    queue: MessageQueue
    queue_offset: int
    reason: str
    record: bytes = b""

    @property
    def error(self) -> UnreadableMessage:
        """The same, to be raised."""
        queue = self.queue
        return UnreadableMessage(queue.broker_name, queue.queue_id, self.queue_offset, self.reason)


def settle(bad: Unreadable, policy: OnBadMessage, quarantine: Path | None) -> None:
    """Say that a message is bad, and keep it if it is to be kept.

    Raises:
        UnreadableMessage: If the policy is to fail, or it could not be kept.
    """
    if policy == "fail":
        raise bad.error
    if policy == "quarantine":
        assert quarantine is not None
        try:
            _keep(bad, quarantine)
        except OSError as error:
            raise UnreadableMessage(
                bad.queue.broker_name,
                bad.queue.queue_id,
                bad.queue_offset,
                f"{bad.reason}; and it is not kept in {quarantine}: {error}",
            ) from error
    if _budget.allows():
        log.warning(
            "message cannot be read policy=%s topic=%s broker=%s queue=%d offset=%d reason=%s%s",
            policy,
            bad.queue.topic,
            bad.queue.broker_name,
            bad.queue.queue_id,
            bad.queue_offset,
            bad.reason,
            _budget.suppressed(),
        )


def damaged_rows(buffer: bytes | memoryview, starts: Ints, sizes: Ints) -> dict[int, str]:
    """Which of many records cannot be read, and why: looked at one by one."""
    found: dict[int, str] = {}
    for row, (at, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
        try:
            view = RecordView(buffer, at, at + size)
            if view.size != size:
                found[row] = "its size is not the one it was stored with"
        except RecordError as error:
            found[row] = error.reason
    return found


def _keep(bad: Unreadable, root: Path) -> None:
    queue = bad.queue
    directory = root / quote(queue.topic, safe="")
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{quote(queue.broker_name, safe='')}-{queue.queue_id}-{bad.queue_offset}"
    told = {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue_id": queue.queue_id,
        "queue_offset": bad.queue_offset,
        "reason": bad.reason,
    }
    # The record first: where the JSON is, both are.
    for ending, data in ((".record", bad.record), (".json", json.dumps(told).encode() + b"\n")):
        _write(directory / f"{name}{ending}", data)


def _write(path: Path, data: bytes) -> None:
    """A file is there whole or not at all, also where two attempts of a task write it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
