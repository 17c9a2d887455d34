"""Which NameServer is asked, and what it is good for when it does not know."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.client.support.name_server_parts import KnownTopics, route, served

from rocketpipe.client.name_servers import NameServerClient, NameServers, of_environment
from rocketpipe.errors import ConnectionLost, RequestRejected
from rocketpipe.protocol.requests.brokers import BrokerConfigReply, GetBrokerConfig
from rocketpipe.protocol.requests.kv import GetKeyValue
from rocketpipe.protocol.requests.routes import GetAllTopics
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, handles

NOBODY = "127.0.0.1:1"


def test_name_servers_are_read_from_a_list() -> None:
    assert NameServers.parse(" a:1 ; b:2;a:1").addresses == ("a:1", "b:2")
    assert str(NameServers.parse("a:1;b:2")) == "a:1;b:2"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "no NameServer given"), (";", "no NameServer"), ("a", "not host:port")],
)
def test_a_list_without_addresses_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        NameServers.parse(text)


async def test_the_one_that_answered_is_asked_again() -> None:
    one, two = KnownTopics(t=route(1)), KnownTopics(t=route(1))
    async with served(one) as first, Caller() as caller:
        async with served(two) as second:
            directory = NameServerClient(caller, NameServers((NOBODY, first, second)))
            assert await directory.route("t")
            assert await directory.route("t")
            assert (one.asked, two.asked) == (["t", "t"], [])


async def test_one_that_does_not_know_is_not_the_last_word() -> None:
    empty, full = KnownTopics(), KnownTopics(t=route(3))
    async with served(empty) as first, served(full) as second, Caller() as caller:
        directory = NameServerClient(caller, NameServers((first, second)))
        found = await directory.route("t")
        assert found is not None
        assert found.queues[0].read_queues == 3
        assert await directory.route("other") is None
        assert empty.asked == ["t", "other"]


async def test_one_that_refuses_counts_as_silent_while_another_may_know() -> None:
    known = KnownTopics(t=route(1))
    known.refuses = "name server not ready"
    async with served(known) as address, Caller() as caller:
        directory = NameServerClient(caller, NameServers((address,)))
        with pytest.raises(ConnectionLost, match="name server not ready"):
            await directory.route("t")


@pytest.mark.parametrize("names", ["10.0.0.1:9876", ""])
async def test_a_broker_in_the_place_of_a_name_server_is_recognised(names: str) -> None:
    class Broker:
        @handles(GetBrokerConfig)
        async def settings(self, request: GetBrokerConfig, call: Call) -> BrokerConfigReply:
            told = f"brokerName=b\nnamesrvAddr={names}\n"
            return BrokerConfigReply(version="{}", properties=told.encode())

    async with served(Broker()) as address, Caller() as caller:
        directory = NameServerClient(caller, NameServers((address,)))
        told = f"{address}: this is a broker, and a NameServer is wanted; .*{names or 'none'}"
        for asked in (directory.ask(GetAllTopics()), directory.route("t")):
            with pytest.raises(ConnectionLost, match=told) as caught:
                await asked
            assert not caught.value.retryable


async def test_clients_begin_with_different_servers() -> None:
    async with Caller() as caller:
        servers = NameServers(tuple(f"127.0.0.1:{port}" for port in range(1, 5)))
        chance = random.Random(7)
        first = {NameServerClient(caller, servers, chance=chance)._address() for _ in range(40)}
        assert first == set(servers.addresses)


async def test_a_question_goes_to_the_next_server_but_a_refusal_is_an_answer() -> None:
    async with served(KnownTopics()) as address, Caller() as caller:
        directory = NameServerClient(caller, NameServers((NOBODY, address)))
        with pytest.raises(RequestRejected, match="not supported"):
            await directory.ask(GetKeyValue(namespace="n", key="k"))
        directory = NameServerClient(caller, NameServers((NOBODY,)))
        silent = rf"^{NOBODY}: no NameServer answers: cannot connect \(Connection refused\); is one"
        with pytest.raises(ConnectionLost, match=silent):
            await directory.ask(GetKeyValue(namespace="n", key="k"))


@pytest.mark.parametrize(
    ("topics", "hint"),
    [
        ([], "knows no topic at all: has a broker registered with it?"),
        (["order", "Orders", "zebra"], "knows 3 other topics, the nearest are 'order', 'Orders'"),
        (["a", "b"], "knows these topics: 'a', 'b'"),
        (list("abdef"), "knows these topics: 'a', 'b', 'd' and 2 more"),
        (
            ["TBW102", "%RETRY%g", "%DLQ%g", "broker-a", "c", "c_REPLY_TOPIC"],
            "knows these topics: none of users",
        ),
        ([f"orders{n}" for n in range(5001)], "knows 5001 other topics"),
    ],
)
async def test_the_hint_names_what_was_perhaps_meant(topics: list[str], hint: str) -> None:
    known = KnownTopics(**{topic: route(1) for topic in topics})
    async with served(known) as address, Caller() as caller:
        directory = NameServerClient(caller, NameServers((address,)))
        assert await directory.hint("orders") == f"NameServer {address} {hint}"


async def test_there_is_no_hint_from_servers_that_are_gone() -> None:
    async with Caller() as caller:
        assert await NameServerClient(caller, NameServers((NOBODY,))).hint("t") == ""


@pytest.mark.parametrize("text", ["a:9876,b:9876", "http://a:9876", "a:9876 b:9876"])
def test_addresses_that_mean_something_else_are_refused_with_the_right_form(text: str) -> None:
    with pytest.raises(ValueError, match="as host:port, several with ';' between"):
        NameServers.parse(text)


def test_what_is_no_text_is_no_list_of_addresses() -> None:
    number: Any = 9876
    with pytest.raises(TypeError, match="'a:9876;b:9876', not 9876"):
        NameServers.parse(number)


def test_our_own_variable_goes_before_the_one_of_rocketmq() -> None:
    both = {"ROCKETPIPE_NAMESRV": "a:1", "NAMESRV_ADDR": "b:2"}
    assert of_environment(both) == ("ROCKETPIPE_NAMESRV", "a:1")
    assert of_environment({"NAMESRV_ADDR": "b:2"}) == ("NAMESRV_ADDR", "b:2")
    assert of_environment({"NAMESRV_ADDR": ""}) is None
