"""What is public is there, is loaded when it is used, and is what pages tell users to import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import rocketpipe

ROOT = Path(__file__).parent.parent
PUBLIC = (
    "rocketpipe",
    "rocketpipe.arrow",
    "rocketpipe.blocking",
    "rocketpipe.errors",
    "rocketpipe.integrations.kombu",
    "rocketpipe.integrations.asgi",
    "rocketpipe.integrations.taskiq",
    "rocketpipe.integrations.wsgi",
    "rocketpipe.jobs",
    "rocketpipe.otel",
    "rocketpipe.pipeline",
    "rocketpipe.pipeline.launch",
    "rocketpipe.projects",
    "rocketpipe.selectors",
    "rocketpipe.strategies",
    "rocketpipe.tables",
    "rocketpipe.testing",
)
#: Types that users get, or name in annotations, and do not make; pages print where they live.
NAMED = ("rocketpipe.client.", "rocketpipe.model.", "rocketpipe.testing.kit_")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
FENCE = re.compile(r"^( *)```python[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def imports_of(page: Path) -> set[tuple[str, str]]:
    """What the code of a page imports from us."""
    text = page.read_text(encoding="utf-8")
    blocks = [text] if page.suffix == ".py" else [match[2] for match in FENCE.finditer(text)]
    found = set()
    for block in blocks:
        for line in re.findall(
            r"^ *from (rocketpipe[\w.]*) import (\([^)]*\)|[^\n#]+)", block, re.M
        ):
            code = ast.parse(f"from {line[0]} import {line[1].strip()}").body[0]
            assert isinstance(code, ast.ImportFrom)
            found |= {(line[0], alias.name) for alias in code.names}
    return found


def exports(module: ModuleType) -> set[str]:
    return set(getattr(module, "__all__", ())) or {
        name for name in vars(module) if not name.startswith("_")
    }


def test_every_name_is_there_and_comes_from_where_it_lives() -> None:
    for path in PUBLIC:
        module = import_module(path)
        for name in getattr(module, "__all__", ()):
            assert getattr(module, name) is not None
            assert name in dir(module)
    assert rocketpipe.Producer.__module__ == "rocketpipe.client.producer.producer"
    for path in ("rocketpipe", "rocketpipe.blocking", "rocketpipe.pipeline", "rocketpipe.tables"):
        with pytest.raises(AttributeError, match="Consumer"):
            _ = import_module(path).Consumer


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_import_only_what_is_public(page: Path) -> None:
    reference = page.is_relative_to(ROOT / "docs" / "reference")
    for path, name in imports_of(page):
        if reference and path.startswith(NAMED):
            assert hasattr(import_module(path), name)
            continue
        assert path in PUBLIC, f"from {path} import {name}: nothing there is public"
        assert name in exports(import_module(path)) | {p.rpartition(".")[2] for p in PUBLIC}


def test_a_command_that_needs_no_client_loads_none() -> None:
    check = (
        "import sys, rocketpipe.cli.main; "
        "sys.exit(any(name.startswith(('rocketpipe.client', 'asyncio')) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", check], check=False, timeout=60)
    assert done.returncode == 0
