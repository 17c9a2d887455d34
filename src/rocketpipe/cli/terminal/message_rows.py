"""A message as a row of what commands print."""

from __future__ import annotations

from typing import Any, Final

from rocketpipe.cli.terminal.printing import Printer, moment
from rocketpipe.client.consumer.received import ReceivedMessage

COLUMNS: Final = ["broker", "queue", "offset", "stored", "tags", "keys", "message_id", "body"]
#: A table shows so much of a body; JSON and CSV have it whole.
_SHOWN_CHARACTERS: Final = 60


def message_row(message: ReceivedMessage, printer: Printer) -> dict[str, Any]:
    """A message as a row; a table has only the beginning of a long body."""
    text = body_text(message.body)
    if printer.form == "table" and len(text) > _SHOWN_CHARACTERS:
        text = text[: _SHOWN_CHARACTERS - 1] + "…"
    return {
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "stored": moment(message.stored_ms),
        "tags": message.tags,
        "keys": list(message.keys),
        "message_id": message.message_id,
        "body": text,
    }


def line(row: dict[str, Any]) -> str:
    """A row as the line of people who follow."""
    keys = ",".join(row["keys"]) or "-"
    place = f"{row['broker']}:{row['queue']}:{row['offset']}"
    return f"{row['stored']}  {place}  {row['tags'] or '-'}  {keys}  {row['body']}"


def body_text(body: bytes) -> str:
    """A body as text; bytes that are none are escaped."""
    return body.decode("utf-8", "backslashreplace")
