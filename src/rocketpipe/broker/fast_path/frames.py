"""A plain send picked apart in one go: frame in, what to append out.

What is right is defined by ``sending`` and, behind it, by ``handlers.sending``. ``_frames.pyx`` is
the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketpipe import compiled
from rocketpipe.model.flags import BORN_HOST_V6, INNER_BATCH, TRANSACTION_BITS
from rocketpipe.protocol.hot import read_send
from rocketpipe.record.layout import HOST_BITS
from rocketpipe.store.log.puts import Put

#: Of what a sender says: neither how wide hosts are, nor whether it is a half message.
KEPT_BITS: Final = ~(HOST_BITS | TRANSACTION_BITS)
#: So much of a property text is looked at here, and of the key in it.
MAX_REST_BYTES: Final = 512
_MAX_KEY_BYTES: Final = 64
_START: Final = b'{"code":310,'
_KEY: Final = b"\x02UNIQ_KEY\x01"
_new_tuple: Final = tuple.__new__

#: The opaque, or None if nobody waits for an answer; queue id and unique key; what to append.
Plain = tuple[int | None, int, str, Put]


def cut_key(raw: bytes) -> tuple[bytes, bytes]:
    """Take the unique key out of encoded properties: what is left, and the key; empty if none."""
    at = (b"\x02" + raw).find(_KEY)
    if at < 0:
        return raw, b""
    at += len(_KEY) - 1
    end = raw.find(2, at)
    if end < 0:
        end = len(raw)
    return raw[:at] + raw[end:], raw[at:end]


def read_plain(
    buffer: bytes,
    at: int,
    body: int,
    end: int,
    queues: Mapping[str, int],
    rests: set[bytes],
    suffix: bytes,
    max_body_bytes: int,
    born_host: bytes,
) -> Plain | None:
    """Read the frame between ``at`` and ``end``, if it is a send like others that were plain.

    Its topic is among ``queues``, with the number of its queues, and its properties but for the
    key are among ``rests``. Of any other frame the result is None: it may still be a plain send,
    and the caller has to look for itself.
    """
    if buffer[at + 8 : at + 20] != _START or end - body > max_body_bytes:
        return None
    header = read_send(buffer, at, body)
    if header is None:
        return None
    fields = header.fields
    # Before it is encoded: half a surrogate pair cannot be.
    if not fields.properties.isascii():
        return None
    raw = fields.properties.encode()
    rest, key = cut_key(raw)
    if (
        rest not in rests
        or not (key.isalnum() and len(key) <= _MAX_KEY_BYTES)
        or fields.batch
        or fields.reconsume_times
        or fields.sys_flag & INNER_BATCH
        or not 0 <= fields.queue_id < queues.get(fields.topic, 0)
    ):
        return None
    sys_flag = fields.sys_flag & KEPT_BITS | (BORN_HOST_V6 if len(born_host) > 8 else 0)
    put = (
        fields.topic,
        fields.queue_id,
        buffer[body:end],
        raw + suffix if raw[-1] == 2 else b"%b\x02%b" % (raw, suffix),
        fields.flag,
        sys_flag,
        fields.born_ms,
        born_host,
        0,
        0,
    )
    opaque = None if header.flag else header.opaque
    return opaque, fields.queue_id, key.decode(), _new_tuple(Put, put)


compiled.take_over(globals(), "rocketpipe.broker.fast_path._frames")
