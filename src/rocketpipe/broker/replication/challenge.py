"""Who a follower and its leader are to each other, shown before any byte of the log flows.

    follower   magic:8
    leader     magic:8  nonce:32
    follower   length of its name:2  name  nonce:32  proof:32
    leader     proof:32

A proof is HMAC-SHA256, by the secret of the user that brokers ask each other as, over the side that
gives it, both nonces and the name. The follower gives its own first: a stranger who connects learns
32 random bytes. Nonces are never used again, so that nothing that was overheard is of use. Apache's
brokers know nothing of this; see ``haAllowPlainFrom``.

Nothing is read or sent here.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.broker.replication.frames import HaProtocolError

MAGIC: Final = b"RPHA\x00\x00\x00\x01"
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
#: So long either side may take for all of it.
PATIENCE_S: Final = 5.0
_MOST_NAME_BYTES: Final = 256
_LENGTH: Final = Struct(">H")

#: The secrets that a user may give a proof by now, none of one who may not follow.
Secrets = Callable[[str], Sequence[Secret]]


class NotProven(HaProtocolError):
    """The other side did not show that it is who it should be."""


class LeaderAsks:
    """The leader's part: asks, and checks the answer."""

    def __init__(self, secrets_of: Secrets) -> None:
        self._secrets_of = secrets_of
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._kept = b""
        self._has_begun = False
        #: Who it said to be, for the log; not believed before it is proven.
        self.name = ""

    def receive(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Take what came; gives what is to be sent, and what is left over once it is proven.

        Raises:
            NotProven: If it is nobody who may follow.
        """
        self._kept += data
        sent = b""
        if not self._has_begun:
            if not self._kept.startswith(MAGIC[: len(self._kept)]):
                raise NotProven(
                    "it does not begin with a challenge: a slave of Apache's cannot, and is let in "
                    "where haAllowPlainFrom names its address; one of ours needs "
                    "innerClientAuthenticationCredentials"
                )
            if len(self._kept) < len(MAGIC):
                return b"", None
            self._has_begun = True
            self._kept = self._kept[len(MAGIC) :]
            sent = MAGIC + self._nonce
        if len(self._kept) < _LENGTH.size:
            return sent, None
        (length,) = _LENGTH.unpack_from(self._kept)
        if not 1 <= length <= _MOST_NAME_BYTES:
            raise NotProven(f"a name of {length} bytes")
        end = _LENGTH.size + length + NONCE_BYTES + PROOF_BYTES
        if len(self._kept) < end:
            return sent, None
        return sent + self._proven(self._kept[_LENGTH.size : end], length), self._kept[end:]

    def _proven(self, answer: bytes, length: int) -> bytes:
        name, nonce, given = answer[:length], answer[length:-PROOF_BYTES], answer[-PROOF_BYTES:]
        self.name = name.decode("utf-8", "replace")
        known = self._secrets_of(self.name)
        for secret in known or (Secret.generate(),):
            wanted = _proof(secret, b"follower", self._nonce, nonce, name)
            if hmac.compare_digest(wanted, given) and known:
                return _proof(secret, b"leader", self._nonce, nonce, name)
        raise NotProven(
            f"it is not User:{self.name[:64]}, or that one may not follow: the same "
            "innerClientAuthenticationCredentials are needed at all replicas"
        )


class FollowerAnswers:
    """The follower's part: answers, and checks the leader."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._name = credentials.access_key.encode()
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._asked = b""
        self._kept = b""
        self.is_done = False

    def hello(self) -> bytes:
        """What is sent first."""
        return MAGIC

    def receive(self, data: bytes) -> bytes:
        """Take what came; gives what is to be sent. ``is_done`` says that the leader is proven.

        Raises:
            NotProven: If it is not the leader of this group.
        """
        self._kept += data
        sent = b""
        if not self._asked:
            if not self._kept.startswith(MAGIC[: len(self._kept)]):
                raise NotProven("it asks for no proof, as leaders with access control do")
            if len(self._kept) < len(MAGIC) + NONCE_BYTES:
                return b""
            self._asked = self._kept[len(MAGIC) : len(MAGIC) + NONCE_BYTES]
            self._kept = self._kept[len(MAGIC) + NONCE_BYTES :]
            proof = self._proof(b"follower")
            sent = _LENGTH.pack(len(self._name)) + self._name + self._nonce + proof
        if len(self._kept) >= PROOF_BYTES:
            if len(self._kept) > PROOF_BYTES or not hmac.compare_digest(
                self._kept, self._proof(b"leader")
            ):
                raise NotProven("it does not know the secret of the brokers")
            self.is_done = True
        return sent

    def _proof(self, side: bytes) -> bytes:
        return _proof(self._credentials.secret, side, self._asked, self._nonce, self._name)


def _proof(secret: Secret, side: bytes, asked: bytes, answered: bytes, name: bytes) -> bytes:
    content = b"rocketpipe HA 1\0" + side + b"\0" + asked + answered + name
    return hmac.digest(secret.reveal().encode(), content, hashlib.sha256)
