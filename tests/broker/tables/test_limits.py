"""How much a broker remembers."""

from __future__ import annotations

from rocketpipe.broker.tables.limits import TableFull
from rocketpipe.protocol.codes import ResponseCode


def test_a_refusal_says_what_is_full_how_full_and_what_to_do() -> None:
    refused = TableFull("topics", 7, "delete what is not used")
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == "this broker has 7 topics, and takes no more: delete what is not used"
