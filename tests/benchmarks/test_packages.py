"""Other people's programs: found, unpacked, or missing with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.broker.generator import Unavailable
from benchmarks.broker.packages import find_program


def test_the_machines_own_program_comes_first(tmp_path: Path) -> None:
    assert find_program("sh", ["dash"], tmp_path).path.name == "sh"
    assert list(tmp_path.iterdir()) == []


def test_an_unpacked_package_is_used_again_with_its_libraries(tmp_path: Path) -> None:
    libraries = tmp_path / "no-such-server" / "usr" / "lib" / "x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    program = tmp_path / "no-such-server" / "usr" / "sbin" / "no-such-server"
    program.parent.mkdir()
    program.touch()
    found = find_program("no-such-server", ["no-such-package"], tmp_path)
    assert found.path == program
    assert found.environment["LD_LIBRARY_PATH"] == str(libraries)


def test_without_apt_get_the_reason_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match="no-such-server is not installed, and there is no apt"):
        find_program("no-such-server", ["no-such-package"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_fails_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("apt-get", "dpkg"):
        (tools / name).write_text("#!/bin/sh\necho 'E: the network is down'\nexit 100\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    cache = tmp_path / "cache"
    with pytest.raises(Unavailable, match="apt-get says: E: the network is down"):
        find_program("no-such-server", ["no-such-package"], cache)
    assert list(cache.iterdir()) == []
