"""The documentation is rendered whole, and what is wrong with a page fails the build."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INDEX = "# Index\n\n## Start\n\n| | |\n|---|---|\n| [Page](page.md) | the only one |\n"


def build(site: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.docs.site", site, "--root", root],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A documentation of one page, rendered as ours is."""
    (tmp_path / "docs").mkdir()
    for name in ("conf.py", "site.css", "site.js"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    (tmp_path / "README.md").write_text("# Small\n\n[the index](docs/README.md)\n")
    (tmp_path / "docs" / "README.md").write_text(INDEX)
    (tmp_path / "docs" / "page.md").write_text("# Page\n\n```python\nx = 1\n```\n")
    return tmp_path


# One test, since rendering it all takes seconds, and two processes would both do it.
def test_our_pages_are_rendered_linked_fit_for_phones_and_searched_offline(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = build(site)
    assert (done.returncode, done.stderr) == (0, "")

    first = (site / "index.html").read_text()
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"]
    for page in pages:
        address = page.relative_to(ROOT).with_suffix(".html").as_posix()
        text = (site / address).read_text()
        assert f'href="{address}"' in first or page.name == "README.md", f"no way to {address}"
        assert '<meta name="viewport"' in text, address
        assert "prefers-color-scheme: dark" in text, address
        assert re.search(r'<script src="[./]*_static/site\.js', text), address
        language = "zh-CN" if ".zh" in page.suffixes else "en"
        assert re.search(rf'<html[^>]* lang="{language}"', text), address

    # A script is loaded from a disk too, where a page may fetch nothing.
    assert "searchindex.js" in (site / "search.html").read_text()
    assert "transactions" in (site / "searchindex.js").read_text()


def test_what_is_wrong_with_pages_fails_the_build_and_is_named(tree: Path, tmp_path: Path) -> None:
    (tree / "docs" / "lost.md").write_text("# Lost\n")
    (tree / "docs" / "page.md").write_text(
        "# Page\n\n[gone](nowhere.md) [gone](README.md#no-such-part)\n\n```python\nfor ? in\n```\n"
    )
    done = build(tmp_path / "site", tree)
    assert done.returncode == 1
    assert "lost.md: WARNING: document isn't included in any toctree" in done.stderr
    assert "nowhere.md" in done.stderr
    assert "no-such-part" in done.stderr
    assert 'as "python" resulted in an error' in done.stderr


def test_a_page_that_asks_another_machine_fails_the_build(tree: Path, tmp_path: Path) -> None:
    (tree / "docs" / "page.md").write_text("# Page\n\n![x](https://example.org/x.png)\n")
    done = build(tmp_path / "out" / "site", tree)
    assert done.returncode == 1
    assert "docs/page.html: https://example.org/x.png" in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["site"]
