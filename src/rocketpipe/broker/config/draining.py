"""The settings by which a broker is emptied: see ``rocketpipe broker drain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The end of the year 9999: later than anybody waits.
_NEVER_MS: Final = 253_402_300_799_000

#: It is read, and routes send producers elsewhere; who comes all the same is served.
DRAINING: Final[Mapping[str, str]] = {
    "brokerPermission": "4",
    "startAcceptSendRequestTimeStamp": "0",
}
#: It is read, and takes nothing from anybody: producers try another.
CLOSED: Final[Mapping[str, str]] = {
    "brokerPermission": "4",
    "startAcceptSendRequestTimeStamp": str(_NEVER_MS),
}
#: As brokers are by default.
OPEN: Final[Mapping[str, str]] = {
    "brokerPermission": "6",
    "startAcceptSendRequestTimeStamp": "0",
}
