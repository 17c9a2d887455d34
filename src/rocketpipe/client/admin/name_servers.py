"""NameServers: their own settings, and the values they keep for others.

NameServers do not talk to each other, so what is changed is changed at each of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketpipe.client.admin.fleet import Fleet
from rocketpipe.config.conf_file import read_conf
from rocketpipe.errors import InvalidName, RequestRejected
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.kv import (
    ORDER_NAMESPACE,
    DeleteKeyValue,
    GetKeyValue,
    GetKeyValues,
    GetNamesrvConfig,
    PutKeyValue,
    UpdateNamesrvConfig,
)
from rocketpipe.protocol.requests.routes import GetAllTopics


class NameServerAdmin:
    """Reads and changes what NameServers keep beside routes."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def addresses(self) -> list[str]:
        """Where they are, as far as this client was told."""
        return list(self._fleet.name_servers.values())

    async def known_topics(self, server: str) -> list[str]:
        """The topics that one of them knows of, all kinds, in order.

        One that was started a moment ago knows those of brokers that have registered since.

        Raises:
            ConnectionLost: If it does not answer.
            RequestRejected: If it is set not to list topics.
        """
        return sorted((await self._fleet.call(server, GetAllTopics())).names.topics)

    async def settings(self) -> dict[str, dict[str, str]]:
        """Every setting of each NameServer, by its address.

        Raises:
            ConnectionLost: If one of them is out of reach.
        """
        replies = await self._fleet.ask(self._fleet.name_servers, GetNamesrvConfig())
        return {
            address: {entry.key: entry.value for entry in read_conf(reply.properties, address)}
            for address, reply in replies.items()
        }

    async def change(self, settings: Mapping[str, str]) -> None:
        """Change settings of NameServers while they run: all, or none if one is refused.

        Raises:
            InvalidName: If a key or value cannot be written as ``key=value``.
            RequestRejected: If a setting is not known, not of its kind, or fixed while it runs.
            PartlyDone: If some NameServers have changed, and others have not.
        """
        lines = [f"{_line_part(key, value)}\n" for key, value in settings.items()]
        request = UpdateNamesrvConfig(properties="".join(lines).encode())
        await self._fleet.tell(self._fleet.name_servers, request)

    async def put(self, namespace: str, key: str, value: str, *, server: str | None = None) -> None:
        """Keep a value, in the place of the last one; at this NameServer alone, if one is given.

        Raises:
            PartlyDone: If some NameServers keep it, and others do not.
        """
        request = PutKeyValue(namespace=namespace, key=key, value=value)
        await self._fleet.tell(
            self._fleet.name_servers if server is None else {server: server}, request
        )

    async def get(self, namespace: str, key: str) -> str | None:
        """The value that is kept, if there is one, by the NameServer that answers.

        Raises:
            ConnectionLost: If none of them answers.
        """
        try:
            request = GetKeyValue(namespace=namespace, key=key)
            return (await self._fleet.session.directory.ask(request)).value
        except RequestRejected as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return None

    async def values(self, namespace: str, *, server: str | None = None) -> dict[str, str]:
        """Every value of a namespace, by the NameServer that answers, or by this one.

        Raises:
            ConnectionLost: If none of them answers, or this one does not.
        """
        request = GetKeyValues(namespace=namespace)
        try:
            if server is None:
                return dict((await self._fleet.session.directory.ask(request)).values.table)
            return dict((await self._fleet.call(server, request)).values.table)
        except RequestRejected as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return {}

    async def delete(self, namespace: str, key: str) -> None:
        """Let go of a value; one that is not there is gone already.

        Raises:
            PartlyDone: If some NameServers still keep it.
        """
        request = DeleteKeyValue(namespace=namespace, key=key)
        await self._fleet.tell(self._fleet.name_servers, request)

    async def set_order(self, topic: str, queues: Mapping[str, int] | None) -> None:
        """Fix the queues of a topic that is ordered across brokers, by broker; None: no longer.

        Raises:
            PartlyDone: If some NameServers have changed it, and others have not.
        """
        if queues is None:
            await self.delete(ORDER_NAMESPACE, topic)
            return
        text = ";".join(f"{broker}:{count}" for broker, count in sorted(queues.items()))
        await self.put(ORDER_NAMESPACE, topic, text)


def _line_part(key: str, value: str) -> str:
    if not key or any(letter in "=:#!" or letter.isspace() for letter in key):
        raise InvalidName("setting", key[:100], "is no key of a setting")
    if not value.isprintable():
        raise InvalidName("setting", key[:100], "has a value that cannot be written in one line")
    escaped = value.replace("\\", "\\\\")
    return f"{key}={escaped}"
