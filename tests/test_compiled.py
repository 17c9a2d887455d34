"""Which hot functions run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rocketpipe import compiled

SOURCE = Path(__file__).parent.parent / "src" / "rocketpipe"


def run(code: str, switch: str | None) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != compiled.SWITCH}
    if switch is not None:
        environ[compiled.SWITCH] = switch
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def fake(monkeypatch: pytest.MonkeyPatch, found: ModuleType | str, switch: str = "") -> Any:
    monkeypatch.setattr(compiled, "load", lambda twin: found)
    monkeypatch.setenv(compiled.SWITCH, switch)
    names: dict[str, Any] = {"__name__": __name__, "one": one, "run": subprocess.run}
    compiled.take_over(names, "rocketpipe.record._hot")
    return names["one"]


def one() -> str:
    return "python"


def twin() -> Any:
    return SimpleNamespace(TWINS=("one", "run", "absent"), one=lambda: "compiled", pure={})


def test_a_twin_takes_over_what_the_module_defines(monkeypatch: pytest.MonkeyPatch) -> None:
    found = twin()
    assert fake(monkeypatch, found)() == "compiled"
    # What is only imported is not its own, and was replaced where it is.
    assert found.pure == {"one": one}


def test_without_a_twin_python_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fake(monkeypatch, "it was not built")() == "python"


def test_the_switch_forces_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fake(monkeypatch, twin(), "1")() == "python"
    assert compiled.describe({compiled.SWITCH: "1"}) == "Python: ROCKETPIPE_PURE=1"


def test_the_switch_forces_compiled_functions_or_says_why_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert fake(monkeypatch, twin(), "0")() == "compiled"
    with pytest.raises(ImportError, match=r"_hot: it was not built, and ROCKETPIPE_PURE=0"):
        fake(monkeypatch, "it was not built", "0")


def test_a_twin_of_other_source_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(made_from: str | None) -> object:
        found = SimpleNamespace(MADE_FROM=made_from)
        monkeypatch.setattr(compiled, "import_module", lambda name: found)
        return compiled.load.__wrapped__("rocketpipe.record._hot")

    assert load("00000000") == "it was built from other source: run `make setup`"
    assert not isinstance(load(compiled.digest(SOURCE, SOURCE / "record" / "_hot.pyx")), str)


def test_a_twin_that_does_not_load_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError("undefined symbol: PyNothing", name="rocketpipe.record._hot")

    monkeypatch.setattr(compiled, "import_module", fail)
    found = compiled.load.__wrapped__("rocketpipe.record._hot")
    assert found == "it does not load: undefined symbol: PyNothing"


def test_what_was_never_built_is_said_to_be_so() -> None:
    assert compiled.load("rocketpipe.config._hot") == "it was not built"


def test_the_digest_follows_the_source(tmp_path: Path) -> None:
    room = tmp_path / "store"
    room.mkdir()
    source = room / "_hot.pyx"
    assert compiled.digest(tmp_path, source) is None
    digests = set()
    for name, text in (("_hot.pyx", "a"), ("_hot.pyx", "b"), ("_raw.pxd", "c"), ("_raw.pxd", "d")):
        (room / name).write_text(text)
        compiled.included.cache_clear()
        digests.add(compiled.digest(tmp_path, source))
    assert len(digests) == 4


def test_every_twin_is_named() -> None:
    names = {
        ".".join(("rocketpipe", *path.relative_to(SOURCE).with_suffix("").parts))
        for path in SOURCE.rglob("_*.pyx")
    }
    assert names == set(compiled.TWINS)
    assert set(compiled.states({})) == {twin.removeprefix("rocketpipe.") for twin in names}


def test_a_process_says_what_it_runs() -> None:
    code = "from rocketpipe import compiled; print(compiled.describe())"
    assert run(code, "1").stdout == "Python: ROCKETPIPE_PURE=1\n"
    reasons = compiled.states({})
    expected = compiled.describe({})
    assert run(code, None).stdout == expected + "\n"
    forced = run("import rocketpipe.broker.fast_path.turn", "0")
    assert (forced.returncode == 0) == (not any(reasons.values()))


@pytest.mark.parametrize("switch", ["1", None])
def test_functions_are_those_that_were_asked_for(switch: str | None) -> None:
    code = "from rocketpipe.record import hot; print(type(hot.split).__name__)"
    kind = run(code, switch).stdout.strip()
    wanted = "function"
    if switch is None and not compiled.states({})["record._hot"]:
        wanted = "builtin_function_or_method"
    assert kind == wanted
