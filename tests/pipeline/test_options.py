"""Options, as Spark hands them over."""

from __future__ import annotations

import pytest

from rocketpipe.errors import RocketPipeError
from rocketpipe.pipeline.options import DEFAULT_GROUP, OptionError, ReadOptions

GOOD = {"nameServer": "127.0.0.1:9876", "subscribe": "orders"}


def test_two_options_are_enough() -> None:
    options = ReadOptions.parse(GOOD)
    assert options == ReadOptions("127.0.0.1:9876", ("orders",), DEFAULT_GROUP)


def test_letter_case_and_blanks_around_values_do_not_matter() -> None:
    given = {"NAMESERVER": " a:1 ; b:2 ", "Subscribe": " orders , returns,", "groupid": " g "}
    assert ReadOptions.parse(given) == ReadOptions("a:1;b:2", ("orders", "returns"), "g")


def test_a_topic_named_twice_is_read_once() -> None:
    assert ReadOptions.parse(GOOD | {"subscribe": "b,a,b"}).topics == ("b", "a")


@pytest.mark.parametrize(
    ("change", "option", "next_step"),
    [
        ({"nameServer": ""}, "nameServer", 'add .option("nameServer", "127.0.0.1:9876")'),
        ({"subscribe": " "}, "subscribe", 'add .option("subscribe", "orders")'),
        ({"subscribe": ",,"}, "subscribe", "give one, or several with ',' between"),
        ({"subscribe": "orders,a b"}, "subscribe", r"' ' at 1 is not one of %|a-zA-Z0-9_-"),
        ({"nameServer": "localhost"}, "nameServer", 'write it like "127.0.0.1:9876"'),
        ({"nameServer": "a:99999"}, "nameServer", "'a:99999' is not host:port"),
        ({"groupId": "DEFAULT_CONSUMER"}, "groupId", "choose your own"),
        ({"groupId": ""}, "groupId", "is blank"),
        ({"subscrbe": "x"}, "subscrbe", "did you mean 'subscribe'?"),
        ({"nameServers": "x"}, "nameservers", "did you mean 'nameServer'?"),
        ({"namesrvAddr": "x"}, "namesrvaddr", "did you mean 'nameServer'?"),
        ({"topic": "x"}, "topic", "did you mean 'subscribe'?"),
        ({"path": "x"}, "path", "did you mean 'subscribe'?"),
        ({"colour": "x"}, "colour", "There are nameServer, subscribe, groupId"),
    ],
)
def test_a_wrong_option_is_named_with_the_next_step(
    change: dict[str, str], option: str, next_step: str
) -> None:
    with pytest.raises(OptionError) as caught:
        ReadOptions.parse(GOOD | change)
    assert caught.value.option == option
    assert str(caught.value).startswith(f"option {option!r} ")
    assert next_step in str(caught.value)
    assert isinstance(caught.value, RocketPipeError)


@pytest.mark.parametrize("missing", ["nameServer", "subscribe"])
def test_a_missing_option_is_named(missing: str) -> None:
    with pytest.raises(OptionError, match=f"option '{missing}' is missing"):
        ReadOptions.parse({name: value for name, value in GOOD.items() if name != missing})
