"""What is held is let go, whatever happens meanwhile."""

from __future__ import annotations

import pytest

from rocketpipe.store.files.closing import Closing


class Held(Closing):
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_it_is_closed_at_the_end_of_its_block() -> None:
    with Held() as held:
        assert held.closed == 0
    assert held.closed == 1
    with pytest.raises(ValueError, match="in between"), Held() as held:
        raise ValueError("in between")
    assert held.closed == 1
    with pytest.raises(NotImplementedError):
        Closing().close()
