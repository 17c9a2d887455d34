"""What a reader is told: Spark's text options as one checked value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketpipe.client.routes import NameServers
from rocketpipe.errors import InvalidName
from rocketpipe.model.names import check_topic

NAME_SERVER: Final = "nameServer"
SUBSCRIBE: Final = "subscribe"
GROUP_ID: Final = "groupId"

_KNOWN: Final = (NAME_SERVER, SUBSCRIBE, GROUP_ID)
_DEFAULT_GROUP: Final = "rocketpipe-spark"


class OptionError(ValueError):
    """An option that is missing, unknown or wrong; the text names it and the next step."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Where to read, and what."""

    name_servers: str
    topics: tuple[str, ...]
    group: str

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Check the options of ``spark.read.format("rocketpipe")``; their letter case is free.

        Raises:
            OptionError: If one is missing, unknown or wrong.
        """
        given = {name.lower(): value for name, value in options.items()}
        unknown = set(given) - {name.lower() for name in _KNOWN}
        if unknown:
            raise OptionError(
                f"unknown option {sorted(unknown)[0]!r}: there are {', '.join(_KNOWN)}"
            )
        try:
            name_servers = NameServers.parse(_required(given, NAME_SERVER, "127.0.0.1:9876"))
        except ValueError as error:
            raise OptionError(f"option {NAME_SERVER!r}: {error}") from error
        topics = tuple(
            name.strip()
            for name in _required(given, SUBSCRIBE, "orders").split(",")
            if name.strip()
        )
        for topic in topics:
            try:
                check_topic(topic)
            except InvalidName as error:
                raise OptionError(f"option {SUBSCRIBE!r}: {error}") from error
        if not topics:
            raise OptionError(f"option {SUBSCRIBE!r} names no topic: give one, or several with ','")
        return cls(str(name_servers), topics, given.get(GROUP_ID.lower(), _DEFAULT_GROUP))


def _required(given: Mapping[str, str], name: str, example: str) -> str:
    value = given.get(name.lower())
    if not value:
        raise OptionError(f'option {name!r} is missing: .option("{name}", "{example}")')
    return value
