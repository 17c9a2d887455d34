"""The bits that travel with a message, and with a pull.

sysFlag of a message, as stored and as sent:

    bit   0      the body is compressed
          1      several tags; RocketMQ no longer writes it
          2–3    transaction: none, prepared, committed, rolled back
          4, 5   the born host, the store host is IPv6
          6      a client has to split this inner batch
          7      the body is an inner batch
          8–10   how the body is compressed; 0 is what 4.x wrote, and means zlib

Bits that nobody has named are kept as they are, so sysFlag stays a plain ``int``. What a topic
allows is ``model.topic.Perm``.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

COMPRESSED: Final = 1 << 0
MULTI_TAGS: Final = 1 << 1
TRANSACTION_BITS: Final = 3 << 2
BORN_HOST_V6: Final = 1 << 4
STORE_HOST_V6: Final = 1 << 5
NEED_UNWRAP: Final = 1 << 6
INNER_BATCH: Final = 1 << 7
COMPRESSION_BITS: Final = 7 << 8


class Transaction(IntEnum):
    """What part a message plays in a transaction, as its bits of sysFlag."""

    NONE = 0
    PREPARED = 1 << 2
    COMMITTED = 2 << 2
    ROLLED_BACK = 3 << 2


class Compression(IntEnum):
    """How a compressed body is to be read, as its bits of sysFlag."""

    LZ4 = 1 << 8
    ZSTD = 2 << 8
    ZLIB = 3 << 8


class PullFlag(IntFlag):
    """What a pull asks for beside messages: the sysFlag of its request."""

    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4
    CLASS_FILTER = 8
    LITE_PULL = 16


def transaction_of(sys_flag: int) -> Transaction:
    """Tell what part a message plays in a transaction."""
    return Transaction(sys_flag & TRANSACTION_BITS)


def with_transaction(sys_flag: int, state: Transaction) -> int:
    """Give the flags with another transaction state and all else as it was."""
    return (sys_flag & ~TRANSACTION_BITS) | state


def compression_of(sys_flag: int) -> Compression | None:
    """Tell how a body is compressed, if it is; ``None`` if it is not.

    Raises:
        ValueError: If the bits name a compression that does not exist.
    """
    if not sys_flag & COMPRESSED:
        return None
    bits = sys_flag & COMPRESSION_BITS
    # 4.x knew nothing but zlib and left these bits empty.
    return Compression(bits) if bits else Compression.ZLIB


def with_compression(sys_flag: int, compression: Compression | None) -> int:
    """Give the flags of a body that is compressed so, or of one that is not compressed."""
    plain = sys_flag & ~(COMPRESSED | COMPRESSION_BITS)
    return plain if compression is None else plain | COMPRESSED | compression
