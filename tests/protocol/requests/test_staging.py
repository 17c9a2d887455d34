"""Staged sends as bytes: these are ours, so nobody else's define them."""

from __future__ import annotations

import msgspec
import pytest

from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.request import from_command, to_command
from rocketpipe.protocol.requests.staging import (
    AskStages,
    CommitStages,
    ListStaged,
    PrepareStages,
    SettleStages,
    Share,
    StageList,
    StageMessages,
    home_key,
    read_plan,
    write_plan,
)


def test_a_part_travels_under_a_code_of_ours() -> None:
    request = StageMessages(
        producer_group="g",
        application="app",
        batch=7,
        stage="s",
        part=0,
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        born_timestamp=5,
        body=b"batch",
    )
    command = to_command(request, 1)
    assert command.code == RequestCode.STAGE_MESSAGES == 700_001
    assert command.fields["bornTimestamp"] == "5"
    assert from_command(StageMessages, command) == request


def test_a_commit_names_its_stages_in_its_body() -> None:
    named = StageList(stages={"s": 2}, plan="elsewhere")
    request = CommitStages(producer_group="g", application="app", batch=7, named=named)
    command = to_command(request, 1)
    assert command.code == RequestCode.COMMIT_STAGES == 700_002
    assert command.body == b'{"plan":"elsewhere","stages":{"s":2}}'
    assert from_command(CommitStages, command) == request


def test_brokers_are_told_to_keep_and_asked_what_was_decided() -> None:
    named = StageList(stages={"s": 2}, token="t")
    for request, code in (
        (
            PrepareStages(
                producer_group="g",
                application="app",
                batch=7,
                home="a",
                broker_name="b",
                named=named,
            ),
            700_003,
        ),
        (AskStages(application="app", batch=7, broker_name="b", given_up="t,u"), 700_004),
        (SettleStages(application="app", batch=7, share="b"), 700_005),
        (ListStaged(broker_name="b"), 700_008),
    ):
        command = to_command(request, 1)
        assert command.code == code
        assert from_command(type(request), command) == request  # type: ignore[type-var]


def test_a_plan_is_read_as_it_was_written() -> None:
    plan = {"b": Share(stages={"s": 2}, content="2 3 4 - t"), "c": Share(stages={})}
    assert read_plan(write_plan(plan)) == plan
    for text in ("elsewhere", '{"b":{"s":2}}', "[]"):
        with pytest.raises(msgspec.MsgspecError):
            read_plan(text)


def test_names_share_a_few_keys_and_each_has_always_the_same() -> None:
    assert home_key("app") == home_key("app") == "15"
    assert len({home_key(f"app-{number}") for number in range(10_000)}) == 64
