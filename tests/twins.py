"""Both ways to run hot functions: in Python, and compiled.

A test file that has `each_way` as a fixture of its own runs once each way:

    @pytest.fixture(autouse=True, scope="module", params=WAYS)
    def way(request: pytest.FixtureRequest) -> Iterator[None]:
        with each_way(request.param, hot, appender):
            yield
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from rocketpipe import compiled
from rocketpipe.broker.fast_path import turn
from rocketpipe.broker.intake import plain_batch
from rocketpipe.store.derived import derivation
from rocketpipe.store.log import appender

WAYS = ("python", "compiled")
#: By these every function that has a twin is imported, and so replaced.
_ALL = (turn, plain_batch, appender, derivation)

Function = Callable[..., Any]


def compiled_functions(twin: str) -> dict[str, tuple[Function, Function]]:
    """Each function of a twin, and the one that it stands for; the test is skipped without."""
    import_module(twin.replace("._", "."))  # the module that it stands beside, which knows both
    found = compiled.load(twin)
    if isinstance(found, str) or not found.pure:
        pytest.skip(f"no compiled twin: {compiled.describe()}")
    return {name: (getattr(found, name), found.pure[name]) for name in found.TWINS}


@contextmanager
def each_way(way: str, *modules: ModuleType) -> Iterator[None]:
    """Have these modules use hot functions in Python, or compiled ones."""
    stands_for = {
        function: python
        for twin in compiled.TWINS
        for function, python in (compiled_functions(twin) if way == "compiled" else _any(twin))
        .values()
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        if way == "python":
            for module in modules:
                for name, value in list(vars(module).items()):
                    if callable(value) and value in stands_for:
                        patch.setattr(module, name, stands_for[value])
        yield


def _any(twin: str) -> dict[str, tuple[Function, Function]]:
    found = compiled.load(twin)
    if isinstance(found, str):
        return {}
    return {name: (getattr(found, name), python) for name, python in found.pure.items()}


def outcome(function: Function, *arguments: object) -> object:
    """What a function gives, or how it fails."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The same bytes cut short, longer, or with some of them changed."""
    changed = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        if changed:
            at = chance.randrange(len(changed))
            changed[at] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, changed[at] ^ 1 << at % 8))
    if chance.random() < 0.3:
        del changed[chance.randrange(len(changed) + 1) :]
    if chance.random() < 0.1:
        changed += chance.randbytes(chance.randrange(40))
    return bytes(changed)


def assert_wrong_types_are_refused(twin: str) -> None:
    """Call everything with what nobody should pass: that must raise, or else do no harm."""
    values = (
        None,
        1,
        -1,
        1 << 80,
        0.5,
        "text",
        b"\x00" * 200,
        [None],
        [(1, 2)],
        {},
        set(),
        object(),
    )
    for compiled_one, _ in compiled_functions(twin).values():
        for count in range(16):
            for value in values:
                failed = outcome(compiled_one, *[value] * count)
                assert not (isinstance(failed, tuple) and failed[:1] == (SystemError,)), failed
