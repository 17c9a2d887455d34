"""Whether this broker leads, as those see it who take and answer sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from rocketpipe.broker.config.replication import ReplicationConfig
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode

#: The code and the remark that a send is refused with.
Refusal = tuple[int, str]

#: What a send that is stored may be answered with; broker-made messages go on with any of them.
STORED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    }
)


class Acknowledging(Protocol):
    """Those whose word is needed before a send is answered."""

    #: What a send is refused with that they did not acknowledge in time, though it is stored; None
    #: where it is answered with FLUSH_SLAVE_TIMEOUT, as producers of fixed roles know it.
    late: Refusal | None

    @property
    def waiting(self) -> int:
        """How many answers wait for them now."""
        ...

    def reconfigure(self, config: ReplicationConfig) -> None:
        """Go by other settings from now on, as far as they can change."""
        ...

    def refusal(self) -> Refusal | None:
        """Why nothing can be acknowledged now, before anything is appended."""
        ...

    async def acknowledged(self, end: LogOffset) -> int:
        """Wait until everything before ``end`` is acknowledged; gives one of `STORED`.

        Raises:
            RequestRejected: It will not be, by this broker: it leads no longer.
        """
        ...

    def when_acknowledged(self, end: LogOffset, done: Callable[[int, str], None]) -> None:
        """Call ``done``, at once or later, with the code and the remark of the answer."""
        ...


class Standing:
    """One for each broker, from its start to its end; the role moves it.

    A broker that has no replicas stands as it is made: nobody is asked, nothing is refused.
    """

    __slots__ = ("followers", "refusal")

    def __init__(self) -> None:
        #: Who has to have what is sent before it is answered; None where nobody has to.
        self.followers: Acknowledging | None = None
        #: What every send is answered with while this broker does not lead.
        self.refusal: Refusal | None = None

    def check_replicas(self) -> None:
        """See that a change could be acknowledged, before anything is done for it.

        Raises:
            RequestRejected: Too few replicas are in sync.
        """
        refusal = self.followers.refusal() if self.followers is not None else None
        if refusal is not None:
            raise RequestRejected(*refusal)
