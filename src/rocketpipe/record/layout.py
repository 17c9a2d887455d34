"""The bytes of one stored message, the same in the commit log, in a pull body and in a query.

Every number is big-endian and signed. Offsets hold when both hosts are IPv4; a host is 20 bytes
instead of 8 when its bit of sysFlag says IPv6.

      0  4  size of the whole record, these four bytes included
      4  4  magic: V1, or V2 when the topic is longer than 127 bytes
      8  4  CRC-32 of the body as stored, without its top bit; 0 for an empty body
     12  4  queue id
     16  4  flag, the producer's own
     20  8  queue offset
     28  8  log offset
     36  4  sysFlag: compression, transaction state, width of the hosts
     40  8  when it was born, ms
     48  8  where it was born: IP (4 or 16), port (4)
     56  8  when it was stored, ms
     64  8  where it was stored: IP (4 or 16), port (4)
     72  4  how often it was sent back
     76  8  log offset of the half message a commit belongs to
     84  4  length of the body, then the body
         1  length of the topic (V2: 2 bytes), then the topic
         2  length of the properties, then the properties

What ends a commit log segment has no more than its first two fields: the bytes that remain, and
the blank magic. What follows it is unspecified.
"""

from __future__ import annotations

import struct
from typing import Final

from rocketpipe.model.flags import BORN_HOST_V6, STORE_HOST_V6

#: 0xDAA320A7: the topic's length is one byte.
MAGIC_V1: Final = -626843481
#: 0xDAA320AB: the topic's length is two bytes.
MAGIC_V2: Final = -626843477
#: 0xCBD43194: no record, but the unused end of a segment.
BLANK_MAGIC: Final = -875286124

HOST_BITS: Final = BORN_HOST_V6 | STORE_HOST_V6

#: From the size to the body's length, by the host bits of sysFlag.
HEADS: Final = {
    0: struct.Struct(">iiiiiqqiq8sq8siqi"),
    BORN_HOST_V6: struct.Struct(">iiiiiqqiq20sq8siqi"),
    STORE_HOST_V6: struct.Struct(">iiiiiqqiq8sq20siqi"),
    HOST_BITS: struct.Struct(">iiiiiqqiq20sq20siqi"),
}
SIZE_AND_MAGIC: Final = struct.Struct(">ii")
SHORT: Final = struct.Struct(">h")

#: Head, empty body, empty topic under V1, no properties: no record is shorter.
MIN_RECORD_BYTES: Final = HEADS[0].size + 1 + 2

MAX_TOPIC_V1_BYTES: Final = 127
#: The longest names, ``%RETRY%…`` and ``%DLQ%…``, have this many; V2 could count further.
MAX_TOPIC_BYTES: Final = 255
MAX_PROPERTIES_BYTES: Final = 32767
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
#: No body is longer than a frame, 16 MiB, whatever ``maxMessageSize`` says; a record may exceed it
#: by 64 KiB, which holds any head, topic and properties. What is longer is no record.
MAX_RECORD_BYTES: Final = (16 * 1024 + 64) * 1024

#: ``__CRC32#`` 0x01, ten digits, 0x02: see ``record.checksum``.
SEAL_BYTES: Final = 20
