"""How members of a group fetch a topic, where an operator decided that.

Kept as ``config/messageRequestMode.json``, by topic and then by group:

    "messageRequestModeMap":{"orders":{"billing":{"mode":"POP","popShareQueueNum":0,…}}}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rocketpipe.broker.tables.limits import TableFull
from rocketpipe.broker.tables.watched import Watched
from rocketpipe.protocol.requests.clients import RequestMode, RequestModes

MAX_MODES: Final = 100_000


class RequestModeTable(Watched[tuple[str, str]]):
    """Modes by topic and group."""

    def __init__(self, *, limit: int = MAX_MODES) -> None:
        super().__init__()
        self._limit = limit
        self._modes: dict[tuple[str, str], RequestMode] = {}
        #: Grows with every change, so that one can tell whether there was any.
        self.changes = 0

    def get(self, topic: str, group: str) -> RequestMode | None:
        return self._modes.get((topic, group))

    def set(self, mode: RequestMode) -> None:
        """Keep a decision.

        Raises:
            TableFull: If it is one too many.
        """
        key = (mode.topic, mode.consumer_group)
        if key not in self._modes and len(self._modes) >= self._limit:
            raise TableFull("request modes", self._limit, "delete topics and groups not used")
        self._modes[key] = mode
        self._note(key)
        self.changes += 1

    def keys(self) -> list[tuple[str, str]]:
        """Topic and group of each decision."""
        return list(self._modes)

    def replicate(self, modes: Iterable[RequestMode], gone: Iterable[tuple[str, str]] = ()) -> None:
        """Take over decisions of the leader's, and forget those that it does not have."""
        for mode in modes:
            self._modes[mode.topic, mode.consumer_group] = mode
        for key in gone:
            self._modes.pop(key, None)
        self.changes += 1

    def to_file(self) -> RequestModes:
        """The table as it is now."""
        modes: dict[str, dict[str, RequestMode]] = {}
        for (topic, group), mode in self._modes.items():
            modes.setdefault(topic, {})[group] = mode
        return RequestModes(modes=modes)

    def load(self, file: RequestModes) -> None:
        """Take over a table that was saved."""
        for topic, groups in file.modes.items():
            for group, mode in groups.items():
                self._modes[topic, group] = mode
