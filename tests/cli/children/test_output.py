"""Where the log of a child process goes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketpipe.cli.children import output
from rocketpipe.cli.children.output import LogFile, LogLines


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "logs" / "broker-a.log")
    for text in (b"one\n", b"two\n"):
        with log.opened() as file:
            assert not isinstance(file, int)
            file.write(text)

    assert log.path.read_text() == "one\ntwo\n"
    assert log.last_words() == f"see {log.path}"


def test_a_long_file_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_MOST_LOG_BYTES", 10)
    log = LogFile(tmp_path / "broker-a.log")
    log.path.write_text("much too long\n")

    with log.opened():
        pass

    assert log.path.read_text() == ""
    assert (tmp_path / "broker-a.log.1").read_text() == "much too long\n"


async def passed_on(log: LogLines, *parts: bytes) -> None:
    stream = asyncio.StreamReader()
    for part in parts:
        stream.feed_data(part)
    stream.feed_eof()
    with log.opened() as given:
        assert given == asyncio.subprocess.PIPE
        await log.follow(stream)


async def test_lines_are_passed_on_with_the_name_in_front() -> None:
    written: list[bytes] = []
    log = LogLines("broker-a-1", written.append)

    await passed_on(log, b"one\ntw", b"o\n\nno end")

    assert b"".join(written) == (
        b"[broker-a-1] one\n[broker-a-1] two\n[broker-a-1] \n[broker-a-1] no end\n"
    )
    assert log.last_words() == "no end"


async def test_what_explains_a_line_is_not_taken_for_the_last_one() -> None:
    log = LogLines("b", lambda _: None)
    assert log.last_words() == "it said nothing"

    await passed_on(log, b"rocketpipe broker: the log is damaged\n  look at it\n\n")

    assert log.last_words() == "rocketpipe broker: the log is damaged"


async def test_a_line_without_end_is_passed_on_in_parts() -> None:
    written: list[bytes] = []

    await passed_on(LogLines("b", written.append), b"x" * 1_000_000)

    assert len(written) > 1
    assert b"".join(written).count(b"x") == 1_000_000


async def test_lines_of_json_stay_lines_of_json() -> None:
    written: list[bytes] = []
    await passed_on(LogLines("b", written.append), b'{"broker":"b"}\nplain\n')
    assert b"".join(written) == b'{"broker":"b"}\n[b] plain\n'
