"""A table that several processes keep in one directory, and that replicas take over."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserType
from rocketpipe.auth.users import UserTable
from rocketpipe.store.files.disk import Disk


def user(name: str) -> User:
    return User(name=name, secret=Secret(f"the-secret-of-{name}"), type=UserType.NORMAL)


def opened(place: Path) -> UserTable:
    table: UserTable = UserTable.opened(Disk(), place)
    return table


def test_what_one_process_changes_the_others_have(tmp_path: Path) -> None:
    here, there = opened(tmp_path), opened(tmp_path)
    here.put(user("alice"))
    version = there.version
    assert there.get("alice") is None
    assert there.look()
    assert there.get("alice") == user("alice")
    assert there.version is not version
    assert not there.look()
    # Nobody writes over what another one has just made.
    here.put(user("bob"))
    there.put(user("carol"))
    assert here.look()
    assert set(here.kept_names()) == set(there.kept_names()) == {"alice", "bob", "carol"}
    there.remove("alice")
    assert here.look()
    assert here.get("alice") is None


def test_a_file_that_cannot_be_read_changes_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = opened(tmp_path)
    table.put(user("alice"))
    with caplog.at_level(logging.ERROR):
        (tmp_path / "users.json").write_text("{half a")
        assert not table.look()
        (tmp_path / "users.json").unlink()
        assert not table.look()
    assert table.get("alice") is not None
    assert "users stay as they were" in caplog.text
    assert "the-secret-of" not in caplog.text


def test_news_are_told_once_and_again_if_they_could_not_be(tmp_path: Path) -> None:
    table = opened(tmp_path)
    table.put(user("nobody is told of"))
    assert table.take_news() == set()
    table.watch()
    table.put(user("alice"))
    table.put(user("bob"))
    table.remove("bob")
    assert table.has_news
    news = table.take_news()
    assert news == {"alice", "bob"}
    assert not table.has_news
    table.put_news_back(news)
    assert table.take_news() == news
    table.put(user("alice"))  # as it was
    assert not table.has_news
    table.watch(False)
    table.put(user("carol"))
    assert not table.has_news


def test_what_a_leader_has_is_in_force_at_once_and_on_the_disk_when_it_is_saved(
    tmp_path: Path,
) -> None:
    table = opened(tmp_path)
    table.put(user("alice"))
    table.replicate([user("bob")], ["alice", "unknown"])
    assert table.kept_names() == ["bob"]
    assert opened(tmp_path).kept_names() == ["alice"]
    table.save_replicated()
    assert opened(tmp_path).kept_names() == ["bob"]
    assert b"alice" not in (tmp_path / "users.json.bak").read_bytes()
    before = (tmp_path / "users.json").stat().st_ino
    table.replicate([user("bob")], [])
    table.save_replicated()
    assert (tmp_path / "users.json").stat().st_ino == before


def test_values_go_through_text_and_back() -> None:
    values = {"alice": user("alice")}
    assert UserTable.decode(UserTable.encode(values)) == values
