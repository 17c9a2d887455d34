"""What the values that travel as JSON have in common.

A body is written with camelCase keys, whole numbers no wider than Java's. Its enums are written
by name and may be read by ordinal, so their members stand in RocketMQ's order.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

_INT32: Final = 1 << 31
_INT64: Final = 1 << 63

#: A whole number that is Java's int at the peer; one that does not fit is refused.
Int32 = Annotated[int, msgspec.Meta(ge=-_INT32, le=_INT32 - 1)]

#: A whole number that is Java's long at the peer; one that does not fit is refused.
Int64 = Annotated[int, msgspec.Meta(ge=-_INT64, le=_INT64 - 1)]


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of every value that travels as JSON; ``client_id`` is ``clientId`` there.

    Subclasses repeat ``frozen=True, kw_only=True``: a struct's fields do not inherit the latter.
    """
