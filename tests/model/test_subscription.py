from __future__ import annotations

import pytest

from rocketpipe.model.subscription import (
    SQL92,
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    MessageRequestMode,
    Subscription,
)


def test_a_topic_alone_wants_every_message() -> None:
    wanted = Subscription(topic="T")
    assert wanted.expression == "*"
    assert wanted.is_tags
    assert wanted.tags == frozenset()


def test_an_expression_over_properties_is_not_one_of_tags() -> None:
    assert not Subscription(topic="T", expression="a > 1", expression_type=SQL92).is_tags


# The order of Java's enums, by which C++ clients write numbers.
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (MessageModel, ["BROADCASTING", "CLUSTERING"]),
        (ConsumeType, ["CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"]),
        (MessageRequestMode, ["PULL", "POP"]),
        (
            ConsumeFromWhere,
            [
                "CONSUME_FROM_LAST_OFFSET",
                "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
                "CONSUME_FROM_MIN_OFFSET",
                "CONSUME_FROM_MAX_OFFSET",
                "CONSUME_FROM_FIRST_OFFSET",
                "CONSUME_FROM_TIMESTAMP",
            ],
        ),
    ],
)
def test_members_stand_in_rocketmqs_order_under_rocketmqs_names(
    kind: type, names: list[str]
) -> None:
    assert [member.name for member in kind] == names
    assert [member.value for member in kind] == names
