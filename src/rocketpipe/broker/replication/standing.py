"""Whether this broker leads, as those see it who take and answer sends."""

from __future__ import annotations

from typing import Protocol

from rocketpipe.model.offsets import LogOffset

#: The code and the remark that a send is refused with.
Refusal = tuple[int, str]


class Acknowledging(Protocol):
    """Those whose word is needed before a send is answered."""

    def refusal(self) -> Refusal | None:
        """Why nothing can be acknowledged now, before anything is appended."""
        ...

    async def acknowledged(self, end: LogOffset) -> int:
        """Wait until everything before ``end`` is acknowledged; gives the answer's code.

        Raises:
            RequestRejected: It will not be, by this broker: it leads no longer, or waited too long.
        """
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
