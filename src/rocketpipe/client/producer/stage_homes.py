"""Through which broker an application commits its batches: one, for every batch and attempt.

It knows what was decided of a batch. Were another asked when a commit is tried again, because the
first is away or one with a lower name has joined, both would decide. So the first choice is kept
where every attempt finds it: in the NameServers, under the application's name.

    rocketpipe-mqadmin deleteKvConfig -s ROCKETPIPE_STAGE_HOMES -k APPLICATION

lets go of a broker that is gone for good.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.kv import GetKeyValue, PutKeyValue

log = logging.getLogger(__name__)

NAMESPACE: Final = "ROCKETPIPE_STAGE_HOMES"


class StageHomes:
    """Finds the broker of an application, and keeps it for those who come after."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, str] = {}

    async def of(self, application: str, brokers: Collection[str]) -> str:
        """The application's broker; if it has none, the first by name, from now on.

        Raises:
            ConnectionLost, CallTimeout: If no NameServer says.
        """
        home = self._known.get(application)
        if home is None:
            home = await self._kept(application)
            if home is None:
                home = min(brokers)
            # Also where it was known: a NameServer may have been away when the others were told.
            await self._keep(application, home)
            self._known[application] = home
        return home

    async def _kept(self, application: str) -> str | None:
        failure: RocketPipeError | None = None
        answered = False
        for address in self._session.name_servers.addresses:
            request = GetKeyValue(namespace=NAMESPACE, key=application)
            try:
                reply = await self._session.caller.call(address, request, self._session.timeout_ms)
            except RequestRejected as error:
                failure = error
                answered |= error.code == ResponseCode.QUERY_NOT_FOUND
            except RocketPipeError as error:
                failure = error
            else:
                if reply.value:
                    return reply.value
                answered = True
        if not answered and failure is not None:
            raise failure
        return None

    async def _keep(self, application: str, home: str) -> None:
        for address in self._session.name_servers.addresses:
            request = PutKeyValue(namespace=NAMESPACE, key=application, value=home)
            try:
                await self._session.caller.call(address, request, self._session.timeout_ms)
            except RocketPipeError as error:
                log.warning(
                    "it is not kept that an application commits through a broker: a commit that "
                    "is tried again while that one is away may show twice application=%s "
                    "broker=%s reason=%s",
                    application,
                    home,
                    error,
                )
