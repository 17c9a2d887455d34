"""How much a broker remembers of what its peers tell it.

Whoever can connect can make up names. Nothing that grows with them grows without end: what is one
too many is refused, and the refusal says which limit was met.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import ResponseCode


class TableFull(RequestRejected):
    """A table has no room for one more; the request that wanted it is refused with this."""

    def __init__(self, what: str, limit: int, next_step: str) -> None:
        super().__init__(
            ResponseCode.SYSTEM_ERROR,
            f"this broker has {limit} {what}, and takes no more: {next_step}",
        )
        self.what = what
        self.limit = limit


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLimits:
    """The most that each table holds. The defaults are far beyond what one broker can serve."""

    topics: int = 50_000
    groups: int = 50_000
    #: Topics that one group is kept from reading.
    forbidden_topics: int = 10_000
    #: Groups, of consumers and of producers each, that have a member now.
    online_groups: int = 50_000
    #: Members of one group.
    members: int = 10_000
    #: Groups that one connection is a member of, of consumers and of producers each.
    groups_of_client: int = 10_000
    #: Topics that one member of one group subscribes to.
    subscriptions: int = 10_000
    #: Characters of one subscription's expression.
    expression: int = 65_536
    #: Queues that all members of one group have locked.
    locks: int = 200_000
