"""A producer as its session sees it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.client.producer.support.broker_parts import world

from rocketpipe.client.producer.member import ProducerMember
from rocketpipe.client.producer.sending.publish_routes import PublishRoutes


class Notes:
    """Transactions and questions that only note what they are handed."""

    def __init__(self) -> None:
        self.checked: list[object] = []
        self.pushed: list[object] = []

    def on_check(self, *told: object) -> None:
        self.checked.append(told)

    def take(self, pushed: object) -> bool:
        self.pushed.append(pushed)
        return pushed == "mine"


async def test_it_has_a_group_and_the_topics_that_were_sent_to() -> None:
    async with world("a") as here, here.session() as session:
        lines = PublishRoutes(session, "g")
        member = ProducerMember("g", lines, cast("Any", Notes()), cast("Any", Notes()))
        assert (member.producer_groups(), member.consumers(), member.topics()) == (("g",), (), ())
        await lines.find("t")
        assert member.topics() == ("t",)
        member.on_ids_changed("g")
        member.on_routes_changed("t")
        assert lines.known("t") is None


@pytest.mark.parametrize(("reply", "taken"), [("mine", True), ("another's", False)])
def test_what_brokers_ask_reaches_whom_it_is_for(reply: str, taken: bool) -> None:
    notes: Any = Notes()
    member = ProducerMember("g", cast("Any", None), notes, notes)
    member.on_transaction_check(cast("Any", "question"), cast("Any", "message"), "a:1")
    assert notes.checked == [("question", "message", "a:1")]
    assert member.on_reply(cast("Any", reply)) is taken
