"""Settings as fields of dataclasses."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from rocketpipe.config.setting import Setting, setting, setting_for, settings_of


class Flush(enum.Enum):
    ASYNC = "ASYNC_FLUSH"
    SYNC = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    data: Path = setting("storePathRootDir")
    port: int = setting("listenPort", default=10911, least=0, most=65535)
    wait_ms: int = setting("waitTime", default=200, live=True, unit="ms", least=1)
    size: int = setting("maxSize", default=1024, unit="bytes")
    hours: int = setting("hours", default=72, unit="hours")
    flush: Flush = setting("flushDiskType", default=Flush.ASYNC)
    servers: tuple[str, ...] = setting("namesrvAddr", default=())
    on: bool = setting("enabled", default=True)
    profile: Literal["dev", "prod"] = setting("profile", default="dev")
    limit: int | None = setting("limit", default_factory=lambda: None, aliases=("maxLimit",))
    other: str = "no setting"


SETTINGS = {one.attribute: one for one in settings_of(Example)}


def test_they_are_listed_with_what_the_outside_knows_of_them() -> None:
    assert SETTINGS["wait_ms"] == Setting("wait_ms", "waitTime", int, 200, True, "ms", 1)
    assert SETTINGS["data"].default is dataclasses.MISSING
    assert SETTINGS["limit"].names == ("limit", "maxLimit", "limit")
    assert "other" not in SETTINGS
    assert list(SETTINGS) == [field.name for field in dataclasses.fields(Example)][:-1]


def test_a_class_that_declares_none_can_be_given_some() -> None:
    other = setting_for(Example, "other", "otherKey", help="x")
    assert (other.attribute, other.key, other.type, other.default) == (
        "other",
        "otherKey",
        str,
        "no setting",
    )


@pytest.mark.parametrize(
    ("attribute", "text", "value"),
    [
        ("port", " 80 ", 80),
        ("wait_ms", "1000", 1000),
        ("wait_ms", "30s", 30_000),
        ("wait_ms", "2 m", 120_000),
        ("wait_ms", "500ms", 500),
        ("hours", "3d", 72),
        ("size", "64k", 65_536),
        ("size", "4MiB", 4 << 20),
        ("size", "1g", 1 << 30),
        ("flush", "SYNC_FLUSH", Flush.SYNC),
        ("flush", "sync", Flush.SYNC),
        ("servers", "a:1; b:2;", ("a:1", "b:2")),
        ("servers", "", ()),
        ("on", "FALSE", False),
        ("profile", "prod", "prod"),
        ("limit", "", None),
        ("limit", "-5", -5),
        ("data", "/data", Path("/data")),
    ],
)
def test_text_is_read_into_the_type_of_the_field(attribute: str, text: str, value: Any) -> None:
    one = SETTINGS[attribute]
    assert one.read(text) == value
    assert one.read(one.write(value)) == value


@pytest.mark.parametrize(
    ("attribute", "text", "expected"),
    [
        ("port", "70000", "from 0 to 65535"),
        ("port", "-1", "from 0 to 65535"),
        ("port", "80s", "a whole number"),
        ("port", "0x50", "a whole number"),
        ("port", "1" * 5000, "a whole number"),
        ("port", "٣", "a whole number"),
        ("wait_ms", "0", "of 1 or more (milliseconds, or as 500ms, 30s"),
        ("wait_ms", "3x", "milliseconds"),
        ("hours", "30m", "hours"),
        ("size", "5s", "bytes"),
        ("on", "yes", "true or false"),
        ("flush", "maybe", "ASYNC_FLUSH, SYNC_FLUSH"),
        ("profile", "test", "dev, prod"),
        ("data", "", "a path"),
    ],
)
def test_what_is_no_value_says_what_is_expected(attribute: str, text: str, expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        SETTINGS[attribute].read(text)
    assert expected in str(caught.value)


def test_a_key_in_other_units_than_its_field_is_converted() -> None:
    one = setting_for(Example, "limit", "timerMaxDelaySec", unit="s", least=1, times=1000)
    assert one.read("60") == 60_000
    assert one.read("1m") == 60_000
    assert one.write(60_000) == "60"
    assert one.write(None) == ""
    with pytest.raises(ValueError, match="of 1 or more"):
        one.read("0")
