"""Who asks for somebody that is elsewhere: a console, for the person in front of a browser.

    FromAddress  where that person is; signed with the rest of the request
    FromSeal     a proof, by the servers' own secret, that a console of theirs says so of this user

Without the proof whoever has a user's secret may have written the address, so it can only take
away: what rights say of sources has to fit both places. With it the person's place alone counts.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from rocketpipe.auth.secret import Secret

FROM_ADDRESS: Final = "FromAddress"
FROM_SEAL: Final = "FromSeal"
#: No address is longer.
MAX_ADDRESS: Final = 64


def said_for(user: str, address: str, secret: Secret | None) -> tuple[tuple[str, str], ...]:
    """The fields that say so, sealed if there is a secret to do it by; in the order of names."""
    if secret is None:
        return ((FROM_ADDRESS, address),)
    return ((FROM_ADDRESS, address), (FROM_SEAL, _seal(secret, user, address)))


def is_sealed(fields: Mapping[str, str], user: str, secret: Secret | None) -> bool:
    """Whether who has the servers' own secret says where this user is."""
    if secret is None:
        return False
    wanted = _seal(secret, user, fields.get(FROM_ADDRESS, ""))
    given = fields.get(FROM_SEAL, "").encode("utf-8", "replace")
    return hmac.compare_digest(wanted.encode(), given)


def _seal(secret: Secret, user: str, address: str) -> str:
    content = f"{FROM_SEAL}\0{user}\0{address}".encode("utf-8", "replace")
    return hmac.digest(secret.reveal().encode(), content, "sha256").hex()
