"""Which queues are read."""

from __future__ import annotations

import pytest
from tests.pipeline.support.fake_offsets import FakePlaces

from rocketpipe.pipeline.options.selection import Selection
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.planning.offset_reader import UnknownTopic

PLACES = FakePlaces({"orders-1/a/0": (0, 1), "orders-2/a/0": (0, 1), "orders-2/b/0": (0, 1)})


def chosen(**given: str) -> list[tuple[str, str, int]]:
    selection = Selection.parse({name.lower(): text for name, text in given.items()})
    return [(each.topic, each.broker_name, each.queue_id) for each in selection.queues(PLACES)]


def test_topics_by_name_are_read_once_each() -> None:
    assert chosen(subscribe=" orders-2 ,orders-1,orders-2") == [
        ("orders-1", "a", 0),
        ("orders-2", "a", 0),
        ("orders-2", "b", 0),
    ]


def test_a_pattern_fits_whole_names_or_nothing() -> None:
    assert chosen(subscribePattern="orders-2|x") == [("orders-2", "a", 0), ("orders-2", "b", 0)]
    assert chosen(subscribePattern="orders") == []


def test_queues_can_be_named() -> None:
    assert chosen(assign='{"orders-2": {"b": [0, "0"]}}') == [("orders-2", "b", 0)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "'subscribe' is missing"),
        ({"subscribe": ",,"}, "names no topic"),
        ({"subscribe": "a b"}, "topic 'a b'"),
        ({"subscribe": "a", "assign": "{}"}, "'assign' is given beside 'subscribe'"),
        ({"subscribePattern": "("}, "is no regular expression"),
        ({"subscribePattern": "a" * 2000}, "longer than 1000"),
        ({"assign": "[]"}, "is not a JSON object"),
        ({"assign": "{}"}, "names no queue"),
        ({"assign": '{"orders-2": [0]}'}, "has no brokers for 'orders-2'"),
        ({"assign": '{"orders-2": {"a": 0}}'}, "has no list for 'a'"),
        ({"assign": '{"orders-2": {"a": ["x"]}}'}, "queues have numbers"),
        ({"assign": '{"orders-2": {"a": [5]}}'}, "which is not there: there are a:0, b:0"),
    ],
)
def test_a_wrong_choice_names_the_option(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        chosen(**given)


def test_a_topic_that_does_not_exist_is_named() -> None:
    with pytest.raises(UnknownTopic, match="'nowhere'"):
        chosen(subscribe="orders-1,nowhere")
