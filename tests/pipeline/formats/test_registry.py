"""Asking a schema registry."""

from __future__ import annotations

import base64
import socket
import threading
import time
from pathlib import Path

import pytest
from tests.schema_registry import SchemaRegistry

from rocketpipe.pipeline.formats import registry as asking
from rocketpipe.pipeline.formats.errors import (
    BodySchemaError,
    NotRegistered,
    RegistryAway,
    RegistryError,
)
from rocketpipe.pipeline.formats.registry import AUTH, AUTH_FILE, Registered, Registry, registry_at


def test_a_schema_is_asked_for_once(registry: SchemaRegistry) -> None:
    number = registry.register("orders/value", {"type": "string"})
    asked = registry_at(registry.url)
    assert asked is registry_at(registry.url)
    found = Registered("AVRO", '{"type": "string"}', number=number)
    assert asked.by_id(number) == asked.by_id(number) == found
    assert registry.asked == [f"/schemas/ids/{number}"]
    assert asked.version("orders/value") == asked.by_id(number)


def test_what_is_not_there_is_asked_for_again_after_a_while(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Registry(f"{registry.url}/")
    for _ in range(2):
        with pytest.raises(NotRegistered, match="schema 1 is not there"):
            asked.by_id(1)
    assert len(registry.asked) == 1
    with pytest.raises(NotRegistered, match="'nothing' is not there"):
        asked.version("nothing")
    registry.register("a", {"type": "string"})
    monkeypatch.setattr(asking, "UNKNOWN_FOR_S", 0.0)
    assert asked.by_id(1).kind == "AVRO"


def test_what_is_remembered_is_bounded(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_KNOWN", 2)
    numbers = [registry.register("a", {"type": "string", "n": each}) for each in range(3)]
    asked = Registry(registry.url)
    for number in [*numbers, *numbers]:
        asked.by_id(number)
    assert len(registry.asked) == 6
    asked.by_id(numbers[-1])
    assert len(registry.asked) == 6


def test_references_come_before_what_uses_them(registry: SchemaRegistry) -> None:
    registry.register("x", "X")
    registry.register("y", "Y", references=[{"name": "nx", "subject": "x", "version": 1}])
    registry.register(
        "z",
        "Z",
        references=[
            {"name": "ny", "subject": "y", "version": 1},
            {"name": "nx", "subject": "x", "version": 1},
        ],
    )
    asked = Registry(registry.url)
    found = asked.references(asked.version("z"))
    assert [(name, each.text) for name, each in found.items()] == [("nx", "X"), ("ny", "Y")]


def test_who_asks_is_told_by_environment_or_file_and_never_shown(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registry.register("a", {"type": "string"})
    asked = Registry(registry.url)
    monkeypatch.setenv(AUTH, "me:secret")
    asked.version("a")
    monkeypatch.delenv(AUTH)
    monkeypatch.setenv(AUTH_FILE, str(tmp_path / "token"))
    with pytest.raises(RegistryError, match="token cannot be read"):
        asked.version("a")
    (tmp_path / "token").write_text("Bearer abc\n")
    asked.version("a")
    basic = base64.b64encode(b"me:secret").decode()
    assert registry.authorizations == [f"Basic {basic}", "Bearer abc"]
    registry.instead = (401, {}, b"")
    with pytest.raises(RegistryError, match=f"set {AUTH}=user:password") as raised:
        asked.version("a")
    assert "abc" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, {}, b"<html>"), "is it a schema registry"),
        ((200, {}, b"{}"), "is none of a schema registry"),
        ((200, {}, b'{"schema": "x", "references": [1]}'), "is none of a schema registry"),
        ((404, {}, b"no such page"), "HTTP 404 for schema 1: is it a schema registry"),
        ((302, {"Location": "file:///etc/passwd"}, b""), "points elsewhere"),
        ((200, {}, b" " * (asking.MAX_ANSWER + 1)), "more than"),
    ],
)
def test_what_is_no_registry_is_told(
    registry: SchemaRegistry, answer: tuple[int, dict[str, str], bytes], said: str
) -> None:
    registry.instead = answer
    with pytest.raises(RegistryError, match=said) as raised:
        Registry(registry.url).by_id(1)
    assert not isinstance(raised.value, RegistryAway)
    assert len(registry.asked) == 1


def test_one_that_is_away_is_tried_again(registry: SchemaRegistry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(RegistryAway, match=r"cannot be reached \(Connection refused\)"):
        Registry(f"http://127.0.0.1:{port}").by_id(1)
    registry.register("a", {"type": "string"})
    registry.instead = (500, {}, b"")
    asked = Registry(registry.url)
    threading.Thread(target=_mended, args=(registry,)).start()
    assert asked.by_id(1).kind == "AVRO"
    assert len(registry.asked) > 1


def _mended(registry: SchemaRegistry) -> None:
    while not registry.asked:
        time.sleep(0.001)
    registry.instead = None


def test_one_that_answers_byte_by_byte_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(asking, "ATTEMPTS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            peer, _ = server.accept()
            with peer:
                try:
                    while True:
                        peer.sendall(b"H")
                        time.sleep(0.02)
                except OSError:
                    pass

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(RegistryAway, match="timed out"):
            Registry(f"http://127.0.0.1:{server.getsockname()[1]}").by_id(1)
        thread.join()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("registry:8081", "is not like http://registry:8081"),
        ("ftp://registry", "is not like"),
        ("http://", "is not like"),
        ("http://registry:port", "is not like"),
        ("http://me:secret@registry:8081", f"set {AUTH}"),
        ("http://registry/?a=b", "more than an address"),
    ],
)
def test_an_address_is_checked(url: str, said: str) -> None:
    with pytest.raises(BodySchemaError, match=said) as raised:
        Registry(url)
    assert "secret" not in str(raised.value)
