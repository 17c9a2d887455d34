"""What no room of a server does, whatever a peer says: held against the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "rocketpipe"
ROOMS = ("auth", "broker", "namesrv", "remoting", "protocol", "store", "filter", "health")
NEVER_IMPORTED = {"subprocess", "pickle", "marshal", "shelve", "yaml", "multiprocessing"}
NEVER_CALLED = {"eval", "exec", "compile", "__import__", "system", "popen"}


def server_files() -> Iterator[tuple[str, ast.Module]]:
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())


def test_servers_start_no_program_and_unpack_no_objects() -> None:
    found = []
    for name, tree in server_files():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").partition(".")[0]}
            elif isinstance(node, ast.Call):
                called = node.func
                names = {called.id} & NEVER_CALLED if isinstance(called, ast.Name) else set()
                found += [(name, node.lineno, each) for each in names]
                continue
            else:
                continue
            found += [(name, node.lineno, each) for each in names & NEVER_IMPORTED]
    assert found == []


def test_digests_and_signatures_are_compared_in_constant_time() -> None:
    found = []
    for name, tree in server_files():
        if not name.startswith("auth/"):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Compare) or not any(
                isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops
            ):
                continue
            text = ast.unparse(node).lower()
            if "len(" in text or "hidden" in text or "signature:" in text:
                continue
            if "digest" in text or "sign(" in text or ".reveal()" in text:
                found.append((name, node.lineno, text))
    assert found == []
