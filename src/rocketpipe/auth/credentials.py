"""Who this side is towards servers: a name, a secret, and the signature of all it asks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rocketpipe.auth.secret import Secret
from rocketpipe.auth.signature import SigningKey, signed
from rocketpipe.protocol.command import Command


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's name and secret."""

    access_key: str
    secret: Secret
    #: Fields that go with every request, in the order of their names; see ``behalf``.
    said: tuple[tuple[str, str], ...] = ()
    _key: list[SigningKey] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def key(self) -> SigningKey:
        """The secret, made ready to sign with."""
        if not self._key:
            self._key.append(SigningKey(self.secret))
        return self._key[0]

    def sign(self, command: Command) -> Command:
        """Give the same request, signed."""
        fields = {**command.fields, **dict(self.said)} if self.said else command.fields
        return replace(command, fields=signed(fields, command.body, self.access_key, self.key))

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        # Hash states cannot be pickled; the key is made again where it is needed.
        return Credentials, (self.access_key, self.secret, self.said)
