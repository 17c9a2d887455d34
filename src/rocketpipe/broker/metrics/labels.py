"""Labels as RocketMQ's brokers write them."""

from __future__ import annotations

from typing import Final

from rocketpipe.model.names import is_system_group, is_system_topic

#: RocketMQ's versions by number: every release of 4.0.0 and later has two, the snapshot first.
_FIRST: Final = 212
_MAJOR, _MINOR, _PATCH = 200, 20, 2
_FIRST_MAJOR: Final = 4
_HIGHER: Final = 612


def truth(value: bool) -> str:
    """A yes or no."""
    return "true" if value else "false"


def is_system(topic: str, group: str = "") -> str:
    """Whether a topic or a group is RocketMQ's own."""
    return truth(is_system_topic(topic) or is_system_group(group))


def version_name(number: int) -> str:
    """The name of a client's version: ``v5_3_1`` for 475."""
    if number >= _HIGHER:
        return "higher_version"
    if number < _FIRST:
        return "v3"
    major, rest = divmod(number - _FIRST, _MAJOR)
    minor, rest = divmod(rest, _MINOR)
    patch, released = divmod(rest, _PATCH)
    return f"v{_FIRST_MAJOR + major}_{minor}_{patch}" + ("" if released else "_snapshot")
