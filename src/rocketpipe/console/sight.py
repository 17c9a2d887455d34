"""What somebody sees of messages: the one place that gives out bodies and properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.console.answers import Problem
from rocketpipe.console.masking import Masks
from rocketpipe.errors import RecordError


@dataclass(frozen=True, slots=True)
class Sight:
    """What somebody sees of messages: bodies or not, and what of them."""

    bodies: bool
    masks: Masks

    def properties(self, message: ReceivedMessage) -> Mapping[str, str]:
        """The properties that this one sees."""
        found = message.properties
        return self.masks.properties(found) if self.masks else found

    def body(self, message: ReceivedMessage) -> bytes:
        """The body that this one sees.

        Raises:
            Problem: If it is nothing for this one, or cannot be read.
        """
        if not self.bodies:
            raise Problem(403, "bodies are shown to who is logged in", "log in")
        try:
            body = message.body
        except RecordError as error:
            raise Problem(422, str(error), "see what the cause says") from error
        shown = self.masks.body(body)
        if shown is None:
            raise Problem(
                403,
                "fields are masked here, and this body is no JSON, or too long to look through",
                "read it by a consumer, or by a console that masks nothing",
            )
        return shown
