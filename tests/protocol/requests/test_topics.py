from __future__ import annotations

import pytest

from rocketpipe.errors import HeaderError
from rocketpipe.model.topic import TopicFilterType
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import from_command
from rocketpipe.protocol.requests.topics import UpdateAndCreateTopic

FIELDS = {
    "topic": "T",
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
}


def test_what_tools_leave_out_has_its_default() -> None:
    asked = from_command(UpdateAndCreateTopic, Command(code=17, opaque=1, fields=FIELDS))
    assert asked.topic_filter_type is TopicFilterType.SINGLE_TAG
    assert asked.order is False
    assert asked.topic_sys_flag == 0
    assert asked.attributes is None


def test_a_filter_type_that_nobody_knows_is_refused() -> None:
    fields = {**FIELDS, "topicFilterType": "THREE_TAGS"}
    with pytest.raises(HeaderError, match="topicFilterType"):
        from_command(UpdateAndCreateTopic, Command(code=17, opaque=1, fields=fields))
