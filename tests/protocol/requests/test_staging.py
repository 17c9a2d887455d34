"""Staged sends as bytes: these are ours, so nobody else's define them."""

from __future__ import annotations

from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.request import from_command, to_command
from rocketpipe.protocol.requests.staging import CommitStages, StageList, StageMessages


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
