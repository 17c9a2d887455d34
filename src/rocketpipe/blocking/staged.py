"""Messages that show all at once, or never, from any thread."""

from __future__ import annotations

from rocketpipe.blocking.wrapper import Client, blocking
from rocketpipe.client.producer.staging.staged import StagedSends as AsyncStagedSends


class StagedSends(Client[AsyncStagedSends]):
    """One batch of an application: ``with producer.staged("billing", 17) as batch``."""

    @property
    def was_committed(self) -> bool | None:
        """Whether this batch was committed before; known at the end of the block."""
        return self._inner.was_committed

    send = blocking(AsyncStagedSends.send)
