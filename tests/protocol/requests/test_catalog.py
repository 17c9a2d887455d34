from __future__ import annotations

from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests.catalog import UNSERVED, priority, typed_requests, unserved


def typed_codes() -> list[RequestCode]:
    return [code for kind in typed_requests() for code in kind.codes]


def test_every_code_is_typed_or_known_to_be_refused() -> None:
    refused = {row.code for row in UNSERVED}
    assert set(typed_codes()) | refused == set(RequestCode)
    assert set(typed_codes()) & refused == set()


def test_no_code_is_named_twice() -> None:
    assert len(typed_codes()) == len(set(typed_codes()))
    assert len(UNSERVED) == len({row.code for row in UNSERVED})


def test_whatever_producing_and_consuming_needs_is_typed() -> None:
    needed = {code for code in RequestCode if priority(code) <= 1}
    assert needed <= set(typed_codes())
    assert len(needed) == 39


def test_a_request_class_is_walked_once_and_its_bases_are_not() -> None:
    kinds = list(typed_requests())
    assert len(kinds) == len(set(kinds))
    assert all(issubclass(kind, Request) and kind.codes for kind in kinds)
    assert not any(kind.__name__.startswith("_") for kind in kinds)


def test_a_refused_code_says_why_and_a_typed_one_is_none() -> None:
    row = unserved(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC)
    assert row is not None
    assert "rare" in row.why
    assert unserved(RequestCode.SEND_MESSAGE) is None


def test_priorities_rank_plain_traffic_first_and_rarities_last() -> None:
    assert priority(RequestCode.PULL_MESSAGE) == 0
    assert priority(RequestCode.POP_MESSAGE) == 1
    assert priority(RequestCode.GET_BROKER_CONFIG) == 2
    assert priority(RequestCode.CONTROLLER_ELECT_MASTER) == 3
