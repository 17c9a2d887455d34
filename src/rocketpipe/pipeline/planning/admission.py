"""How much of what is there a stream takes at once, and from which queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

KeyT = TypeVar("KeyT")


def share_out(pending: Mapping[KeyT, int], limit: int) -> dict[KeyT, int]:
    """Grant each as much as it has pending, but no more than ``limit`` in all.

    Everyone gets the same, or all it has if that is less: a short queue is not held up by a long
    one. What does not divide goes to those with most pending, so that nobody waits for ever.
    """
    granted = dict.fromkeys(pending, 0)
    left = min(limit, sum(pending.values()))
    waiting = sorted(pending, key=lambda key: pending[key])
    while waiting:
        share = left // len(waiting)
        if pending[waiting[0]] > share:
            extra = left - share * len(waiting)
            for at, key in enumerate(reversed(waiting)):
                granted[key] = share + (at < extra)
            break
        key = waiting.pop(0)
        granted[key] = pending[key]
        left -= pending[key]
    return granted


def share_out_bytes(
    pending: Mapping[KeyT, int], sizes: Mapping[KeyT, int], limit: int
) -> dict[KeyT, int]:
    """Grant each so many messages that they have about ``limit`` bytes in all.

    ``sizes`` has the bytes of all that is pending. One message at least is granted: one that is
    larger than the limit has to be read some time.
    """
    shares = share_out(sizes, limit)
    granted = {
        key: min(count, count * shares[key] // max(1, sizes[key])) for key, count in pending.items()
    }
    if pending and not any(granted.values()):
        longest = max(pending, key=lambda key: pending[key])
        granted[longest] = min(1, pending[longest])
    return granted
