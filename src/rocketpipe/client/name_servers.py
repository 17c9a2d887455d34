"""The NameServers a client asks: any of them will do, and the one that answered is asked again."""

from __future__ import annotations

import difflib
import os
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from rocketpipe.config.conf_file import read_conf
from rocketpipe.errors import (
    AccessDenied,
    CallTimeout,
    ConnectionLost,
    RequestRejected,
    RocketPipeError,
)
from rocketpipe.model.names import is_dlq_topic, is_retry_topic, is_system_topic, reply_topic
from rocketpipe.model.route import TopicRoute
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.routes import GetAllTopics, GetRouteInfoByTopic, GetSystemTopics
from rocketpipe.remoting.caller import CALL_TIMEOUT_MS, Caller, split_address

ReplyT = TypeVar("ReplyT")

#: Where the environment may name them; the first that does counts.
VARIABLES: Final = ("ROCKETPIPE_NAMESRV", "NAMESRV_ADDR")

MAX_NAMED: Final = 3
#: Among more topics than these, none is looked for that was perhaps meant.
MAX_COMPARED: Final = 5000


@dataclass(frozen=True, slots=True)
class NameServers:
    """The NameServers to ask; ``a:9876;b:9876`` in text."""

    addresses: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> NameServers:
        """Read a list of addresses.

        Raises:
            ValueError: If one of them is not host:port, or there is none.
            TypeError: If it is no text.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"NameServers are named in a text such as 'a:9876;b:9876', not {text!r}"
            )
        addresses = tuple(part.strip() for part in text.split(";") if part.strip())
        if not addresses:
            raise ValueError("no NameServer given: name one as host:port, several with ';' between")
        for address in addresses:
            if "," in address or "/" in address or " " in address:
                hint = "name it as host:port, several with ';' between"
                raise ValueError(f"{address!r} is no NameServer's address: {hint}")
            split_address(address)
        return cls(tuple(dict.fromkeys(addresses)))

    def __str__(self) -> str:
        return ";".join(self.addresses)


def of_environment(environment: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """The variable of the environment that names NameServers, and what it says, if one does."""
    for name in VARIABLES:
        if text := environment.get(name):
            return name, text
    return None


class NameServerClient:
    """Asks NameServers, beginning with the one that answered last."""

    def __init__(
        self,
        caller: Caller,
        servers: NameServers,
        *,
        chance: random.Random | None = None,
        timeout_ms: int = CALL_TIMEOUT_MS,
    ) -> None:
        """Begin with any of the servers, if ``chance`` is given, so that clients spread out."""
        self._caller = caller
        self.servers = servers
        self._timeout_ms = timeout_ms
        self._turn = chance.randrange(len(servers.addresses)) if chance else 0

    def check_process(self) -> None:
        """Say so if the connections are another process's.

        Raises:
            ProcessForked: If they are.
        """
        self._caller.check_process()

    def turn(self) -> None:
        """Begin with the next one from now on."""
        self._turn += 1

    async def ask(self, request: Request[ReplyT]) -> ReplyT:
        """Ask one NameServer, the next one if it does not answer.

        Raises:
            ConnectionLost: If none of them answers, or is a broker.
            RequestRejected: If the one that answers refuses.
        """
        failure: RocketPipeError | None = None
        for _ in self.servers.addresses:
            try:
                return await self._caller.call(self._address(), request, self._timeout_ms)
            except (ConnectionLost, CallTimeout) as error:
                failure = error
            except RequestRejected as error:
                if (failure := await self._mistaken(error)) is None:
                    raise
            self._turn += 1
        raise self._silent(failure)

    async def route(self, topic: str) -> TopicRoute | None:
        """Where a topic lives; None if no NameServer that answers knows it.

        Raises:
            ConnectionLost: If none of them says.
            AccessDenied: If one does not know who asks, or they may not.
        """
        # One that came back a moment ago may not know yet what the others do.
        failure: RocketPipeError | None = None
        answered = False
        for _ in self.servers.addresses:
            try:
                request = GetRouteInfoByTopic(topic=topic, accept_standard_json_only=True)
                reply = await self._caller.call(self._address(), request, self._timeout_ms)
            except AccessDenied:
                raise
            except RequestRejected as error:
                if error.code == ResponseCode.TOPIC_NOT_EXIST:
                    answered = True
                else:
                    failure = await self._mistaken(error) or error
            except RocketPipeError as error:
                failure = error
            else:
                return reply.route
            self._turn += 1
        if answered:
            return None
        raise self._silent(failure)

    async def names_of(self, address: str) -> str | None:
        """The NameServers of the broker at an address; None if there is none, or it does not say.

        For who was given a broker where a NameServer should be.
        """
        # Clients would load what operators ask brokers, for what happens once in a while.
        from rocketpipe.protocol.requests.brokers import GetBrokerConfig

        try:
            reply = await self._caller.call(address, GetBrokerConfig(), self._timeout_ms)
            told = {one.key: one.value for one in read_conf(reply.properties, address)}
        except RocketPipeError:
            return None
        return told.get("namesrvAddr", "") if "brokerName" in told else None

    async def _mistaken(self, refusal: RequestRejected) -> ConnectionLost | None:
        """What to say instead, if a refusal is that of a broker."""
        if refusal.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        address = self._address()
        names = await self.names_of(address)
        if names is None:
            return None
        error = ConnectionLost(address, is_broker(names))
        error.retryable = False
        return error

    def _silent(self, failure: RocketPipeError | None) -> ConnectionLost:
        if isinstance(failure, ConnectionLost) and not failure.retryable:
            return failure
        hint = "is one running there? `rocketpipe serve` starts one, with a broker"
        reason = str(failure)
        if isinstance(failure, ConnectionLost) and len(self.servers.addresses) == 1:
            reason = failure.reason
        error = ConnectionLost(str(self.servers), f"no NameServer answers: {reason}; {hint}")
        error.hint = hint
        return error

    async def hint(self, topic: str) -> str:
        """What the NameServers know instead of a topic, for whoever mistyped it."""
        try:
            known = (await self.ask(GetAllTopics())).names.topics
            own = (await self.ask(GetSystemTopics())).names.topics
        except RocketPipeError:
            return ""
        if not known:
            what = "knows no topic at all: has a broker registered with it?"
        else:
            what = knows(topic, users_topics(known, own))
        return f"NameServer {self._address()} {what}"

    def _address(self) -> str:
        addresses = self.servers.addresses
        return addresses[self._turn % len(addresses)]


def is_broker(names: str) -> str:
    """What to say of an address at which a broker is, whose NameServers are these."""
    where = f"its NameServers are {names}" if names else "it has none: give it one with -n"
    return f"this is a broker, and a NameServer is wanted; {where}"


def users_topics(known: Collection[str], own: Collection[str]) -> list[str]:
    """Those topics that are neither RocketMQ's own nor made by it for a group, in order.

    ``own`` are the names of clusters and brokers, which have a topic each.
    """
    made = {*own, *map(reply_topic, own)}
    return sorted(
        name
        for name in known
        if not (name in made or is_system_topic(name) or is_retry_topic(name) or is_dlq_topic(name))
    )


def knows(topic: str, names: Sequence[str]) -> str:
    """What is known instead of a topic, the nearest first, for whoever mistyped it."""
    if len(names) > MAX_COMPARED:
        return f"knows {len(names)} other topics"
    near = difflib.get_close_matches(topic, names, MAX_NAMED)
    if near:
        topics = "topics" if len(names) > 1 else "topic"
        nearest = "the nearest are" if len(near) > 1 else "the nearest is"
        return f"knows {len(names)} other {topics}, {nearest} {_listed(near)}"
    more = len(names) - MAX_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return f"knows these topics: {_listed(names[:MAX_NAMED]) or 'none of users'}{rest}"


def _listed(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in names)
