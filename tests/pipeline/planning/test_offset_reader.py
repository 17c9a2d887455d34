"""What planners are told when there is nothing to plan."""

from __future__ import annotations

import pickle

from tests.pipeline.support.fake_offsets import FakePlaces, queue

from rocketpipe.pipeline.planning.offset_reader import OffsetReader, QueuesUnreachable, UnknownTopic


def test_errors_name_what_is_missing_and_come_through_a_pickle() -> None:
    unknown = pickle.loads(pickle.dumps(UnknownTopic("orders", "a:9876", "create it first")))
    assert str(unknown) == "topic 'orders' is not known to a:9876: create it first"
    unreachable = QueuesUnreachable([queue("orders/b/0"), queue("orders/b/1")])
    assert "2 queues of 'orders'" in str(unreachable)
    assert str(pickle.loads(pickle.dumps(unreachable))) == str(unreachable)


def test_the_fake_is_one() -> None:
    places: OffsetReader = FakePlaces({"orders/a/0": (0, 1)})
    assert places.topics() == {"orders"}
