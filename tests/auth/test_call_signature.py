from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rocketpipe.auth.call_signature import is_timely, read_authorization

NOW = datetime(2026, 11, 17, 12, 0, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "key", "signature"),
    [
        (
            "MQv2-HMAC-SHA1 Credential=ann, SignedHeaders=x-mq-date-time, Signature=AB",
            "ann",
            "ab",
        ),
        ("MQv2-HMAC-SHA1 Credential=ann//Rocketmq, Signature=ab", "ann", "ab"),
        ("MQv2-HMAC-SHA1 Credential=, SignedHeaders=x, Signature=ab", "", "ab"),
        ("Credential=ann", "", ""),
        ("", "", ""),
        ("MQv2-HMAC-SHA1 Credential=a,Credential=b,Signature=c=d", "a", "c=d"),
    ],
)
def test_a_header_is_taken_apart(text: str, key: str, signature: str) -> None:
    assert read_authorization(text) == (key, signature)


def stamp(**off: float) -> str:
    return (NOW + timedelta(**off)).strftime("%Y%m%dT%H%M%SZ")


@pytest.mark.parametrize(
    "off",
    [{}, {"minutes": 4}, {"hours": 8}, {"hours": -12}, {"hours": 14}, {"hours": 5, "minutes": 45}],
)
def test_local_time_with_a_z_behind_it_is_taken(off: dict[str, float]) -> None:
    assert is_timely(stamp(**off), NOW_MS)


@pytest.mark.parametrize(
    "off", [{"minutes": 7}, {"hours": 15}, {"hours": -13}, {"days": 1}, {"days": -300}]
)
def test_another_time_is_not(off: dict[str, float]) -> None:
    assert not is_timely(stamp(**off), NOW_MS)


@pytest.mark.parametrize(
    ("text", "timely"),
    [
        ("2026-11-17T12:01:00Z", True),
        ("2026-11-17T20:01:00+08:00", True),
        ("2026-11-17T20:01:00+07:00", False),
        ("2026-11-17T12:01:00", False),
        ("", False),
        ("now", False),
        ("99999999T999999Z", False),
    ],
)
def test_rfc_3339_says_its_zone(text: str, timely: bool) -> None:
    assert is_timely(text, NOW_MS) is timely
