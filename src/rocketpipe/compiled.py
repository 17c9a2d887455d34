"""Which hot functions run: those in Python, or their compiled twins.

What runs once per message is defined in Python. A module may have a twin beside it, under its own
name with an underscore (``hot.py`` and ``_hot.pyx``), with functions of the same names that do the
same in less time. Such a module ends with `take_over`, which puts them in their place when it is
imported:

    ROCKETPIPE_PURE   not set   compiled where there is a twin to be used, else Python
                      1         Python
                      0         compiled: where a twin cannot be used, an ImportError says why

A twin knows from which source it was made. Beside other source, as after an edit, it is not used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from zlib import crc32

#: Every twin there is.
TWINS: Final = (
    "rocketpipe.record._hot",
    "rocketpipe.protocol._hot",
    "rocketpipe.store.log._appender",
    "rocketpipe.store.log._records",
    "rocketpipe.store.queues._entries",
    "rocketpipe.store.queues._runs",
    "rocketpipe.store.index._entries",
    "rocketpipe.store.derived._derivation",
    "rocketpipe.broker.intake._plain_batch",
    "rocketpipe.auth._frames",
    "rocketpipe.broker.fast_path._asks",
    "rocketpipe.broker.fast_path._turn",
    "rocketpipe.tables._digests",
    "rocketpipe.pipeline.columns._flat_json",
    "rocketpipe.pipeline.log._sweep",
)
SWITCH: Final = "ROCKETPIPE_PURE"


def take_over(names: dict[str, Any], twin: str) -> None:
    """Put compiled functions in the place of a module's own; ``names`` is its ``globals()``.

    The twin keeps what it replaces in its ``pure``, for the cases that it leaves to it.

    Raises:
        ImportError: The switch asks for compiled functions, and there are none to be used.
    """
    switch = os.environ.get(SWITCH)
    if switch == "1":
        return
    found = load(twin)
    if isinstance(found, str):
        if switch == "0":
            raise ImportError(f"{twin}: {found}, and {SWITCH}=0 asks for it", name=twin)
        return
    for name in found.TWINS:
        own = names.get(name)
        # What a module only imports was replaced where it is defined.
        if getattr(own, "__module__", None) == names["__name__"]:
            found.pure[name] = own
            names[name] = getattr(found, name)


@cache
def load(twin: str) -> ModuleType | str:
    """Give a compiled module, or the reason why it is not to be used."""
    try:
        found = import_module(twin)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == twin
        return "it was not built" if absent else f"it does not load: {error}"
    package = Path(__file__).parent
    source = digest(package, package.joinpath(*twin.split(".")[1:]).with_suffix(".pyx"))
    if source is not None and source != found.MADE_FROM:
        return "it was built from other source: run `make setup`"
    return found


def digest(package: Path, source: Path) -> str | None:
    """Return a number that tells a twin's source from any other; None where it is not there.

    In a wheel it is not, and there the twin cannot be older than its source.
    """
    if not source.exists():
        return None
    return f"{crc32(included(package), crc32(source.read_bytes())):08x}"


@cache
def included(package: Path) -> bytes:
    """What any twin may include."""
    return b"".join(part.read_bytes() for part in sorted(package.glob("**/_*.pxd")))


def states(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return for each twin why it does not run: empty if it does."""
    found = {}
    for twin in TWINS:
        module = load(twin)
        name = twin.removeprefix("rocketpipe.")
        if environ.get(SWITCH) == "1":
            found[name] = f"{SWITCH}=1"
        else:
            found[name] = module if isinstance(module, str) else ""
    return found


def describe(environ: Mapping[str, str] = os.environ) -> str:
    """Say in a few words what runs, for whoever asks for the version."""
    reasons = states(environ)
    compiled = [name for name, reason in reasons.items() if not reason]
    if len(compiled) == len(reasons):
        return "compiled"
    first = next(reason for reason in reasons.values() if reason)
    if compiled:
        return f"compiled: {', '.join(compiled)}; the rest in Python: {first}"
    return f"Python: {first}"
