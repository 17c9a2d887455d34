"""Through which broker an application commits its batches: one, for every batch and attempt.

It knows what was decided of a batch. Were another asked when a commit is tried again, because the
first is away or one with a lower name has joined, both would decide. So the first choice is kept
where every attempt finds it: in the NameServers, under one of 64 keys that applications share by
their names. However many names there are, no more is kept.

    rocketpipe-mqadmin deleteKvConfig -s ROCKETPIPE_STAGE_HOMES -k KEY

lets go of a broker that is gone for good; the error of a commit that waits for it names the key.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.kv import GetKeyValue, PutKeyValue
from rocketpipe.protocol.requests.staging import HOMES_NAMESPACE, home_key

log = logging.getLogger(__name__)


class StageHomes:
    """Finds the broker of an application, and keeps it for those who come after."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, str] = {}

    async def of(self, application: str, brokers: Collection[str]) -> str:
        """The application's broker; if it has none, the first by name, from now on.

        Raises:
            ConnectionLost, CallTimeout: If no NameServer says, or keeps it.
        """
        key = home_key(application)
        home = self._known.get(key)
        if home is None:
            home = await self._kept(key)
            is_new = home is None
            # Also where it was known: a NameServer may have been away when the others were told.
            await self._keep(key, home or min(brokers))
            if is_new:
                home = await self._kept(key)  # somebody else may have chosen at the same time
            self._known[key] = home = home or min(brokers)
        return home

    async def _kept(self, key: str) -> str | None:
        failure: RocketPipeError | None = None
        answered = False
        for address in self._session.name_servers.addresses:
            request = GetKeyValue(namespace=HOMES_NAMESPACE, key=key)
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

    async def _keep(self, key: str, home: str) -> None:
        failure: RocketPipeError | None = None
        kept = False
        for address in self._session.name_servers.addresses:
            request = PutKeyValue(namespace=HOMES_NAMESPACE, key=key, value=home)
            try:
                await self._session.caller.call(address, request, self._session.timeout_ms)
            except RocketPipeError as error:
                failure = error
                log.warning(
                    "a name server does not keep through which broker applications commit, and is "
                    "told again address=%s key=%s broker=%s reason=%s",
                    address,
                    key,
                    home,
                    error,
                )
            else:
                kept = True
        if not kept and failure is not None:
            raise failure
