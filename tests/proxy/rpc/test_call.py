from __future__ import annotations

import pytest

from rocketpipe.proxy.rpc.call import check_message, timeout_s
from rocketpipe.proxy.rpc.codes import RpcAborted, StatusCode


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", None), ("1H", 3600), ("2M", 120), ("3S", 3), ("100m", 0.1), ("5u", 5e-6), ("7n", 7e-9)],
)
def test_a_timeout_is_read(text: str, seconds: float | None) -> None:
    assert timeout_s(text) == (seconds if seconds is None else pytest.approx(seconds))


def test_no_timeout_is_longer_than_timers_take() -> None:
    found = timeout_s("99999999H")
    assert found is not None
    assert found < 1e9


@pytest.mark.parametrize("text", ["S", "1", "-1S", "1x", "123456789S", "²S", "1.5S", " 1S"])
def test_what_is_no_timeout_is_refused(text: str) -> None:
    with pytest.raises(RpcAborted):
        timeout_s(text)


def test_what_is_not_read_is_said() -> None:
    check_message(0, 10, 10)
    with pytest.raises(RpcAborted) as refused:
        check_message(0, 11, 10)
    assert refused.value.code is StatusCode.RESOURCE_EXHAUSTED
    with pytest.raises(RpcAborted) as refused:
        check_message(1, 1, 10)
    assert refused.value.code is StatusCode.UNIMPLEMENTED
