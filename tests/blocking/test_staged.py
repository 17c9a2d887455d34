"""The blocking face of a batch of staged messages."""

from __future__ import annotations

import inspect

import pytest

from rocketpipe.blocking import Producer
from rocketpipe.blocking.staged import StagedSends
from rocketpipe.client.producer.staging.staged import StagedSends as AsyncStagedSends
from rocketpipe.errors import SessionClosed


def test_it_says_what_the_asynchronous_one_says() -> None:
    assert inspect.signature(StagedSends.send) == inspect.signature(AsyncStagedSends.send)
    assert StagedSends.send.__doc__ == AsyncStagedSends.send.__doc__


def test_a_batch_is_used_inside_its_block() -> None:
    batch = Producer("127.0.0.1:1").staged("app", 0)
    assert isinstance(batch, StagedSends)
    assert batch.was_committed is None
    with pytest.raises(SessionClosed):
        batch.send("t", b"x")
    with pytest.raises(ValueError, match="a name, and 0 or more"):
        Producer("127.0.0.1:1").staged("", 0)
