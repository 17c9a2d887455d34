"""Addresses as RocketMQ 4.9 writes them, made into those of today.

10.1.2.3   10.1.2.3,10.1.2.4   10.1.2.{3,4}   10.1.2.3-9   10.1.2.*   10.1.*   *
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, summarize_address_range
from typing import Final

#: What stands for every address there is.
EVERYBODY: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_BRACES: Final = re.compile(r"(.*)\{([0-9a-fA-F,. ]+)\}")
_RANGE: Final = re.compile(r"(\d{1,3}\.\d{1,3}\.\d{1,3})\.(\d{1,3})-(\d{1,3})")


def read_addresses(text: str) -> tuple[str, ...] | None:
    """Addresses and networks of a text; none for nobody, None for everybody.

    Raises:
        ValueError: If it is neither.
    """
    text = text.strip()
    if text in EVERYBODY:
        return None
    braces = _BRACES.fullmatch(text)
    if braces is not None:
        each = [f"{braces[1]}{part.strip()}" for part in braces[2].split(",") if part.strip()]
        return tuple(str(_address(part, text)) for part in each)
    found: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part in EVERYBODY:
            return None
        found += _networks(part, text)
    return tuple(found)


def _networks(part: str, text: str) -> list[str]:
    if (span := _RANGE.fullmatch(part)) is not None:
        first, last = (_address(f"{span[1]}.{end}", text) for end in span.groups()[1:])
        if not isinstance(first, IPv4Address) or not isinstance(last, IPv4Address) or first > last:
            raise _none(text)
        return [_plain(str(each)) for each in summarize_address_range(first, last)]
    if "*" not in part:
        return [str(_address(part, text))]
    mark, whole, bits = (":", 8, 16) if ":" in part else (".", 4, 8)
    known = part.split(mark)
    while known and known[-1] == "*":
        known.pop()
    if not known or len(known) >= whole or any(not each or "*" in each for each in known):
        raise _none(text)
    rest = ["0"] * (whole - len(known))
    return [f"{_address(mark.join([*known, *rest]), text)}/{bits * len(known)}"]


def _address(part: str, text: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(part)
    except ValueError:
        raise _none(text) from None


def _plain(network: str) -> str:
    return network.removesuffix("/32")


def _none(text: str) -> ValueError:
    return ValueError(
        f"{text[:60]!r} is no address: 10.1.2.3, 10.1.2.*, 10.1.2.3-9 and 10.1.2.{{3,4}} are"
    )
