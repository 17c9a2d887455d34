from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.errors import InvalidName
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.proxy.translation.transaction_id import TransactionId


@given(
    st.integers(min_value=0, max_value=2**62),
    st.integers(min_value=0, max_value=2**62),
    st.from_regex(r"[A-Z0-9]{1,60}", fullmatch=True),
)
def test_what_is_written_is_read(queue_offset: int, log_offset: int, key: str) -> None:
    place = TransactionId(
        unique_key=key,
        broker="broker-a",
        queue_offset=QueueOffset(queue_offset),
        log_offset=LogOffset(log_offset),
    )
    assert TransactionId.parse(str(place)) == place


@pytest.mark.parametrize(
    "text", ["", "a b 1", "a b 1 2 3", " b 1 2", "a b -1 2", "a b 1 ²", "a /b 1 2", "a" * 2000]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        TransactionId.parse(text)
