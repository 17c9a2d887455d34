"""A message of Kombu's as the body of one of ours: JSON, as a person can read it.

{"body": "[[2, 3], {}, …]", "content-type": "application/json", "headers": {"id": …}, …}
"""

from __future__ import annotations

import base64
import math
from datetime import datetime
from typing import Any

from kombu.utils.json import dumps, loads

Payload = dict[str, Any]


class NotKombus(ValueError):
    """A message in a queue's topic that Kombu has not sent."""


def packed(message: Payload) -> bytes:
    """The bytes to send."""
    text: str = dumps(message)
    return text.encode("utf-8")


def unpacked(body: bytes) -> Payload:
    """What was sent, with all that is looked at before a consumer has it.

    Raises:
        NotKombus: If it was something else.
    """
    try:
        message: Payload = loads(body.decode("utf-8"))
        properties = message["properties"]
        properties["delivery_info"]["routing_key"]
        (message.get("headers") or {}).get("eta")
        if text := message.get("body"):
            read(text, properties.get("body_encoding"))
    except Exception as error:  # whatever it is: Kombu makes objects of what it finds
        raise NotKombus(f"no message of Kombu's: {error!r:.100}") from error
    return message


def written(body: str | bytes) -> tuple[str, str]:
    """A body as text, and how it was made one: bytes that are no text in base64."""
    if isinstance(body, str):
        return body, "utf-8"
    try:
        return bytes(body).decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode("ascii"), "base64"


def read(body: str, encoding: str | None) -> str | bytes:
    """The body again, as text or as bytes."""
    if not isinstance(body, str):
        raise NotKombus(f"a body that is no text: {body!r:.40}")
    if encoding != "base64":
        return body
    try:
        return base64.b64decode(body)
    except ValueError as error:  # binascii.Error among them
        raise NotKombus(f"a body that is no base64: {error}") from error


def due_ms(message: Payload) -> int | None:
    """When a task may run first, in milliseconds since 1970; None if at once.

    A moment without a zone is left to the worker, which knows how it was meant.
    """
    eta = (message.get("headers") or {}).get("eta")
    if not isinstance(eta, str):
        return None
    try:
        moment = datetime.fromisoformat(eta)
    except ValueError:
        return None
    return None if moment.tzinfo is None else math.ceil(moment.timestamp() * 1000)


def task_id(message: Payload) -> str | None:
    """By what a task's message can be looked up, if it has an id that can be a key."""
    found = (message.get("headers") or {}).get("id")
    if isinstance(found, str) and found and found.isascii() and found.isprintable():
        return found if " " not in found else None
    return None
