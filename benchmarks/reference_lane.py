"""The least that storing a buffer of sends can cost in plain Python: one loop, nothing checked.

It does what the composed lane does (frames, headers, records, consume queue entries, answers) with
everything written out in place, so the distance between the two is the price of the house's parts.
"""

from __future__ import annotations

import struct
from zlib import crc32

import msgspec

LENGTHS = struct.Struct(">II")
RECORD = struct.Struct(">iiiiiqqiq8sq8siqi")
QUEUE_ENTRY = struct.Struct(">qiq")
SHORT = struct.Struct(">H")
MAGIC = 0xDAA320A7 - (1 << 32)


class Fields(msgspec.Struct, gc=False):
    b: str = ""
    e: str = "0"
    f: str = "0"
    g: str = "0"
    h: str = "0"
    i: str = ""
    j: str = "0"
    m: str = "false"


class Header(msgspec.Struct, gc=False):
    code: int
    opaque: int
    extFields: Fields  # noqa: N815  the wire's name
    flag: int = 0
    version: int = 0


class Queue:
    __slots__ = ("entries", "next_offset", "number", "topic")

    def __init__(self, topic: str, number: int) -> None:
        encoded = topic.encode()
        self.topic = bytes([len(encoded)]) + encoded
        self.number = number
        self.next_offset = 0
        self.entries: list[bytes] = []


class ReferenceLane:
    """Frames in, a commit log in memory and answers out."""

    def __init__(self, store_host: bytes, room: int) -> None:
        self.store_host = store_host
        self.id_prefix = store_host.hex().upper().encode()
        self.queues: dict[tuple[str, str], Queue] = {}
        self.tags: dict[str, int] = {}
        self.log = memoryview(bytearray(room))
        self.written = 0
        self.decode = msgspec.json.Decoder(Header).decode

    def process(self, data: memoryview, end: int, born: bytes, now: int) -> list[bytes]:
        position = 0
        answers: list[bytes] = []
        decode, unpack, queues, log = self.decode, LENGTHS.unpack_from, self.queues, self.log
        while end - position >= 8:
            total, header_bytes = unpack(data, position)
            stop = position + 4 + total
            if stop > end:
                break
            start = position + 8
            body_start = start + (header_bytes & 0xFFFFFF)
            header = decode(data[start:body_start])
            fields = header.extFields
            key = (fields.b, fields.e)
            queue = queues.get(key)
            if queue is None:
                queue = queues[key] = Queue(fields.b, int(fields.e))
            properties = fields.i
            encoded = properties.encode()
            body = data[body_start:stop]
            body_bytes = stop - body_start
            tail = queue.topic + SHORT.pack(len(encoded)) + encoded
            size = 88 + body_bytes + len(tail)
            offset = queue.next_offset
            queue.next_offset = offset + 1
            at = self.written
            RECORD.pack_into(
                log,
                at,
                size,
                MAGIC,
                crc32(body) & 0x7FFFFFFF,
                queue.number,
                int(fields.h),
                offset,
                at,
                int(fields.f),
                int(fields.g),
                born,
                now,
                self.store_host,
                int(fields.j),
                0,
                body_bytes,
            )
            middle = at + 88 + body_bytes
            log[at + 88 : middle] = body
            log[middle : at + size] = tail
            self.written = at + size
            queue.entries.append(QUEUE_ENTRY.pack(at, size, self.tag_code(properties)))
            answer = (
                b'{"code":0,"extFields":{"msgId":"%s%016X","queueId":"%d","queueOffset":"%d"},'
                b'"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON",'
                b'"version":401}'
            ) % (self.id_prefix, at, queue.number, offset, header.opaque)
            answers.append(LENGTHS.pack(len(answer) + 4, len(answer)))
            answers.append(answer)
            position = stop
        return answers

    def tag_code(self, properties: str) -> int:
        at = properties.find("TAGS\x01")
        if at < 0:
            return 0
        end = properties.find("\x02", at)
        tag = properties[at + 5 : end if end >= 0 else None]
        code = self.tags.get(tag)
        if code is None:
            code = 0
            for char in tag:
                code = (31 * code + ord(char)) & 0xFFFFFFFF
            code = self.tags[tag] = code - (1 << 32) if code >= 1 << 31 else code
        return code

    def reset(self) -> None:
        """Start the log and the queues over, keeping what was allocated."""
        self.written = 0
        for queue in self.queues.values():
            queue.next_offset = 0
            queue.entries.clear()
