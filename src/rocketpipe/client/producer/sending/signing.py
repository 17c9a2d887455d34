"""Signatures of sends: of what a template is filled in with, in the order in which it is signed.

The names of a send's fields are letters and come in their order behind ``AccessKey`` and what else
goes with every request, so what is signed is known but for a few numbers, the properties and the
body.
"""

from __future__ import annotations

from typing import Final

from rocketpipe.auth.credentials import Credentials
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.model.names import AUTO_CREATE_TOPIC
from rocketpipe.protocol.frame import HEAD
from rocketpipe.protocol.json_dialect import quote

_FIELDS: Final = b'"extFields":{'
_pack: Final = HEAD.pack


class SendSigner:
    """Signs the sends of one group to one topic on one broker."""

    __slots__ = ("_after", "_before", "_key", "_named")

    def __init__(
        self, credentials: Credentials, group: str, topic: str, broker_name: str, new_queues: int
    ) -> None:
        name = credentials.access_key
        self._key = credentials.key
        said = "".join(text for _, text in credentials.said)
        self._before = f"{name}{said}{group}{topic}{AUTO_CREATE_TOPIC}{new_queues}".encode()
        self._after = broker_name.encode()
        fields = (("AccessKey", name), *credentials.said)
        named = "".join(f'"{field}":{quote(text)},' for field, text in fields)
        self._named = f'{named}"Signature":"'.encode()

    def frame(
        self, out: Outgoing, header: bytes, queue_id: int, opaque: int, *, oneway: bool = False
    ) -> bytes:
        """The bytes that send it to a queue, as `Outgoing.frame` gives them, signed."""
        head, body = out.head(header, queue_id, opaque, oneway=oneway), out.body
        content = b"%b%d%d%d%d%b0false%b%b" % (
            self._before,
            queue_id,
            out.sys_flag,
            out.born_ms,
            out.flag,
            out.properties.encode(),
            b"true" if out.batch else b"false",
            self._after,
        )
        at = head.index(_FIELDS) + len(_FIELDS)
        signature = self._key.sign(content, body).encode()
        size = len(head) + len(self._named) + len(signature) + 2
        return b"".join(
            (
                _pack(size + 4 + len(body), size),
                head[:at],
                self._named,
                signature,
                b'",',
                head[at:],
                body,
            )
        )
