"""Answers to operators who limit how much of old messages groups read."""

from __future__ import annotations

import json
import logging

from rocketpipe.broker.delivery.cold_reads import ColdReads
from rocketpipe.config.conf_file import read_conf
from rocketpipe.errors import ConfigError, InvalidName, RequestRejected
from rocketpipe.model.names import check_consumer_group
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import (
    ColdReadsReply,
    GetColdReads,
    LimitColdReads,
    UnlimitColdReads,
)
from rocketpipe.remoting.router import Call, handles

log = logging.getLogger(__name__)


class ColdReadHandlers:
    """Sets limits, and shows what they are for."""

    def __init__(self, cold: ColdReads) -> None:
        self._cold = cold

    @handles(LimitColdReads)
    async def limit(self, request: LimitColdReads, call: Call) -> None:
        limits = _limits(request.limits)
        for group, size in limits.items():
            self._cold.allow(group, size)
        log.info("cold reads limited peer=%s groups=%s", call.peer.address, ",".join(limits))

    @handles(UnlimitColdReads)
    async def unlimit(self, request: UnlimitColdReads, call: Call) -> None:
        group = request.group.decode("utf-8", "replace")
        self._cold.forget(group)
        log.info("cold reads not limited peer=%s group=%.255s", call.peer.address, group)

    @handles(GetColdReads)
    async def show(self, request: GetColdReads, call: Call) -> ColdReadsReply:
        return ColdReadsReply(info=json.dumps(self._cold.info()).encode())


def _limits(text: bytes) -> dict[str, int]:
    """All limits of a request; one that is wrong makes it wrong."""
    try:
        entries = read_conf(text, "limits")
        for entry in entries:
            check_consumer_group(entry.key)
    except (ConfigError, InvalidName) as error:
        raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
    for entry in entries:
        if not (entry.value.isascii() and entry.value.isdigit() and len(entry.value) <= 18):
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"group {entry.key} cannot have {entry.value[:80]!r} bytes: give a whole number",
            )
    return {entry.key: int(entry.value) for entry in entries}
