"""What the source of servers never has: ways for a peer's words to become code, and leaks."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "rocketpipe"
#: What answers peers, and what it is made of.
SERVERS = (
    *("auth", "broker", "namesrv", "remoting", "protocol", "record", "store", "filter", "health"),
    *("coordination", "model"),
)
#: A ZooKeeper of one's own, and certificates: started by a command, never by a request.
STARTS_PROGRAMS = {"coordination/zookeeper_server.py"}
#: What is compared there is no digest.
DIGESTS = ("digest", "signature", "secret", "hmac")


@cache
def trees(*rooms: str) -> list[tuple[str, ast.AST]]:
    return [
        (path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text()))
        for room in rooms
        for path in sorted((SOURCE / room).rglob("*.py"))
    ]


@cache
def imported_by_servers() -> dict[str, set[str]]:
    return {path: imported(tree) for path, tree in trees(*SERVERS)}


@cache
def calls_in_servers() -> list[tuple[str, ast.Call]]:
    return [
        (path, node)
        for path, tree in trees(*SERVERS)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    ]


def imported(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("module", ["pickle", "marshal", "shelve", "yaml", "subprocess", "pty"])
def test_no_server_imports(module: str) -> None:
    found = {path for path, found in imported_by_servers().items() if module in found}
    assert not found - STARTS_PROGRAMS, found


@pytest.mark.parametrize("name", ["eval", "exec", "compile", "system", "popen", "execv"])
def test_no_server_calls(name: str) -> None:
    found = []
    for path, node in calls_in_servers():
        called = node.func
        is_it = isinstance(called, ast.Name) and called.id == name
        if isinstance(called, ast.Attribute) and called.attr == name:
            owner = called.value
            is_it = isinstance(owner, ast.Name) and owner.id in ("os", "builtins")
        if is_it:
            found.append(f"{path}:{node.lineno}")
    assert not found


def test_digests_and_secrets_are_compared_in_constant_time() -> None:
    found = []
    for path, tree in trees("auth"):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Compare):
                continue
            if not any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops):
                continue
            for side in (node.left, *node.comparators):
                text = ast.unparse(side).lower()
                is_length = text.startswith("len(") or text.isupper()
                if any(word in text for word in DIGESTS) and not is_length:
                    found.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    # The name of a field, and the text that stands for a secret, are no secrets.
    assert [each for each in found if "SIGNATURE" not in each and "HIDDEN" not in each] == []


def test_no_secret_is_kept_as_a_plain_text() -> None:
    """A field named for a secret is a `Secret`, or says that it is not shown."""
    found = []
    for path, tree in trees(
        "auth", "broker/config", "namesrv", "client", "pipeline/options", "remoting"
    ):
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef) or not any(
                "dataclass" in ast.unparse(each) for each in node.decorator_list
            ):
                continue
            for field in node.body:
                if not isinstance(field, ast.AnnAssign):
                    continue
                name, kind = ast.unparse(field.target), ast.unparse(field.annotation)
                named = any(word in name for word in ("secret", "password", "credentials"))
                text = ast.unparse(field)
                is_place = name.endswith(("_file", "_env", "_path"))
                if named and "str" in kind and "repr=False" not in text and not is_place:
                    found.append(f"{path}: {text}")
    assert not found
