"""Keys of RocketMQ that nothing here reads, and the value that is in force all the same.

Who gives that value gets what it says, so nobody is told that it has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketpipe.config.load import Choice

SO_ANYWAY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanFileForciblyEnable": "true",
        "compatibleWithOldNameSrv": "true",
        "enableCalcFilterBitMap": "false",
        "enableConsumeQueueExt": "false",
        "enableLmq": "false",
        "enableMultiDispatch": "false",
        "enablePopBatchAck": "true",
        "fetchNameSrvAddrByDnsLookup": "false",
        "fetchNamesrvAddrByAddressServer": "false",
        "forceRegister": "true",
        "messageIndexEnable": "true",
        "readUnCommitted": "false",
        "rejectPullConsumerEnable": "false",
        "timerInterceptDelayLevel": "false",
        "timerStopEnqueue": "false",
        "timerWheelEnable": "true",
        "transientStorePoolEnable": "false",
        "useServerSideResetOffset": "true",
        "warmMapedFileEnable": "false",
    }
)


def kept_anyway(choice: Choice) -> frozenset[str]:
    """The keys that were given with the value that is in force."""
    given = {key: choice.given(key) for key in SO_ANYWAY}
    return frozenset(
        key
        for key, one in given.items()
        if one is not None and one.text.strip().lower() == SO_ANYWAY[key]
    )
