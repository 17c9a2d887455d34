"""RocketMQ's .conf files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies

from rocketpipe.config.conf_file import MAX_BYTES, Entry, conf_values, read_conf
from rocketpipe.errors import ConfigError

GOLDEN = json.loads((Path(__file__).parent / "golden" / "properties.json").read_text())["cases"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: repr(case["text"]))
def test_files_read_as_java_reads_them(case: dict[str, object]) -> None:
    text = case["text"]
    assert isinstance(text, str)
    found = {entry.key: entry.value for entry in read_conf(text.encode(), "f") if entry.key}
    expected = case["properties"]
    assert isinstance(expected, dict)
    assert found == {key: value for key, value in expected.items() if key}


def test_each_entry_knows_its_line() -> None:
    text = b"# first\n\nbrokerName = broker-b\nnamesrvAddr=a:1;\\\r\n    b:2\n!x\nlistenPort 1\n"
    assert read_conf(text, "f") == [
        Entry("brokerName", "broker-b", 3),
        Entry("namesrvAddr", "a:1;b:2", 4),
        Entry("listenPort", "1", 7),
    ]


def test_letters_beyond_ascii_come_as_utf8_as_latin1_or_escaped() -> None:
    assert read_conf("a=é北".encode(), "f")[0].value == "é北"
    assert read_conf("a=é".encode("latin-1"), "f")[0].value == "é"
    assert read_conf(rb"a=\u5317\u4eac\ud83d\ude00", "f")[0].value == "北京😀"


def test_the_mark_that_windows_puts_first_is_no_part_of_the_first_key() -> None:
    assert read_conf(b"\xef\xbb\xbfbrokerName=a", "f")[0].key == "brokerName"


def test_an_escape_that_stands_for_nothing_is_named_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"broker\.conf line 2: \\u12x is no character"):
        read_conf(b"a=1\nb=\\u12x", "broker.conf")


def test_what_is_too_large_for_settings_is_refused() -> None:
    with pytest.raises(ConfigError, match="too many"):
        read_conf(b"#" * (MAX_BYTES + 1), "f")


@given(strategies.text(strategies.sampled_from("ab=:\\ \t\f\n\r#!u041"), max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        entries = read_conf(text.encode(), "f")
    except ConfigError:
        return
    lines = [entry.line for entry in entries]
    assert lines == sorted(set(lines))


def test_of_a_key_that_stands_there_twice_the_last_value_counts() -> None:
    assert conf_values(b"a=1\nb=2\na=3\n", "settings") == {"a": "3", "b": "2"}
