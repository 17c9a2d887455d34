from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.client.consumer.pushing.pull_template import PullTemplate
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.pulling import PullMessage

PULL = PullMessage(
    consumer_group="readers",
    topic="orders",
    queue_id=7,
    queue_offset=QueueOffset(0),
    max_msg_nums=32,
    sys_flag=2,
    commit_offset=QueueOffset(0),
    suspend_timeout_millis=15_000,
    sub_version=7,
    expression_type="TAG",
    max_msg_bytes=7,
    broker_name="broker-a",
)
OFFSETS = st.integers(0, (1 << 63) - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(OFFSETS, st.integers(0, 15), OFFSETS, st.integers(0, (1 << 31) - 1), NAMES, NAMES)
def test_a_frame_is_that_of_the_request(
    offset: int, flags: int, commit: int, opaque: int, group: str, broker: str
) -> None:
    like = replace(PULL, consumer_group=group, broker_name=broker)
    asked = replace(
        like, queue_offset=QueueOffset(offset), sys_flag=flags, commit_offset=QueueOffset(commit)
    )
    expected = encode_frame(to_command(asked, opaque))
    template = PullTemplate(like)
    assert template.frame(offset, flags, commit, opaque) == expected
    assert template.asking(offset, flags, commit) == asked


def test_names_that_look_like_fields_or_formats_stay_what_they_are() -> None:
    for name in ('"queueOffset":"7"', "%d", "%%", '","opaque":7,"x":"', "sysFlag"):
        like = replace(PULL, consumer_group=name, broker_name=name)
        asked = replace(like, queue_offset=QueueOffset(5), commit_offset=QueueOffset(3))
        frame = PullTemplate(like).frame(5, 2, 3, 9)
        assert frame == encode_frame(to_command(asked, 9))
