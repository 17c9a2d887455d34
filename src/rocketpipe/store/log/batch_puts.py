"""The messages of a batch as puts, made without an object for each part.

``_batch_puts.pyx`` is the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from typing import Final

from rocketpipe import compiled
from rocketpipe.record.hot import split_batch
from rocketpipe.store.log.puts import Put

_UNIQUE_NAME: Final = b"UNIQ_KEY\x01"
_UNIQUE_BYTES: Final = 32
_new_tuple: Final = tuple.__new__


def puts_of_batch(
    buffer: bytes,
    max_bytes: int,
    heads: set[bytes],
    topic: str,
    queue_id: int,
    sys_flag: int,
    born_ms: int,
    born_host: bytes,
    suffix: bytes,
) -> list[Put] | None:
    """Make messages to append of a batch whose properties are of a known kind, else give None.

    They end in a unique key of 32 letters and digits, and what stands before it is among
    ``heads``. Each gets ``suffix`` behind its properties.
    """
    messages = split_batch(buffer, max_bytes)
    if messages is None:
        return None
    puts = []
    for flag, body, raw in messages:
        head, _, key = raw.rpartition(_UNIQUE_NAME)
        if (
            len(key) != _UNIQUE_BYTES + 1
            or key[-1] != 2
            or not key[:-1].isalnum()
            or head not in heads
        ):
            return None
        put = (topic, queue_id, body, raw + suffix, flag, sys_flag, born_ms, born_host, 0, 0)
        puts.append(_new_tuple(Put, put))
    return puts


compiled.take_over(globals(), "rocketpipe.store.log._batch_puts")
