"""The runner of the documentation's code: what it runs, and that it fails when the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tools.docs.snippets import before_serving, is_plain, runnable

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Where programs and commands name a topic or a group.
NAMED = re.compile(
    r"""(?:\.(?:send\w*|subscribe|on|transaction|staged|request|create|queues_of)\(|Message\(|group=|
    "(?:subscribe|topic|groupId)",[ ]|rocketpipe[ ](?:topic|group)[ ]create[ ]|message[ ]send[ ])
    "?([a-z][\w-]*)""",
    re.VERBOSE,
)


def run(page: Path, text: str, *others: Path) -> subprocess.CompletedProcess[str]:
    page.write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "tools.docs.snippets", page, *others],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_blocks_of_a_page_build_on_each_other(tmp_path: Path) -> None:
    text = (
        "# Page\n\n```python\nx = 1\n```\nthen\n\n1. step\n   ```python\n   assert x == 1\n   ```\n"
    )
    done = run(tmp_path / "page.md", text)
    assert (done.returncode, done.stdout) == (0, "snippets: 1 of 1 pages with code ran\n")


def test_a_failure_points_to_the_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    done = run(page, "# Page\n\n```python\nx = 1\nassert x == 2\n```\n")
    assert done.returncode == 1
    assert f'File "{page}", line 5' in done.stdout
    assert "0 of 1" in done.stdout


def test_other_languages_and_what_is_marked_do_not_run(tmp_path: Path) -> None:
    text = "```sh\nexit 1\n```\n\n```python no-run\n1 / 0\n```\n\n```\n1 / 0\n```\n"
    done = run(tmp_path / "page.md", text)
    assert (done.returncode, done.stdout) == (0, "snippets: 0 of 0 pages with code ran\n")


def test_commands_that_are_marked_run_in_their_turn(tmp_path: Path) -> None:
    text = (
        "```python\nopen('a', 'w').write('one')\n```\n\n```sh run\ntest $(cat a) = one\n"
        "rocketpipe --version > b\n```\n\n```python\nassert 'rocketpipe' in open('b').read()\n```\n"
    )
    assert run(tmp_path / "page.md", text).returncode == 0
    assert run(tmp_path / "other.md", text.replace("test", "false; test")).returncode == 1


def test_pages_that_a_reader_tries_on_one_server_share_no_topic_or_group() -> None:
    users = defaultdict(set)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        program = runnable(text)
        if ".zh" not in page.suffixes and program.strip() and is_plain(text):
            for name in NAMED.findall(program):
                users[name].add(page.name)
    assert {"orders", "billing", "drinks", "sales", "trades"} <= users.keys()
    shared = {name: pages for name, pages in users.items() if len(pages) > 1}
    assert not shared, "name it otherwise on one of the pages"


PAGE_WITH_SERVERS = """
```sh
rocketpipe serve --data somewhere   # until it is stopped
```

```python
import asyncio
from rocketpipe import Producer

async def main():
    async with Producer("127.0.0.1:9876") as producer:
        await producer.send("orders", b"one espresso")

asyncio.run(main())
```
"""


@pytest.mark.scenario
def test_servers_that_a_page_starts_are_there_for_its_code(tmp_path: Path) -> None:
    done = run(tmp_path / "page.md", PAGE_WITH_SERVERS)
    assert done.returncode == 0, done.stdout
    # and only for pages that say so
    without = PAGE_WITH_SERVERS.replace("rocketpipe serve", "echo")
    assert run(tmp_path / "other.md", without.replace(":9876", ":1")).returncode == 1


def test_what_servers_are_made_of_is_made_before_they_start() -> None:
    page = "```sh run\nmake it\n```\n```sh\nrocketpipe serve -c it\n```\n```sh run\nuse it\n```\n"
    assert before_serving(page) == "make it\n"
    assert "make it" not in runnable(page)
    assert "use it" in runnable(page)
    plain = page.replace(" -c it", "")
    assert before_serving(plain) == ""
    assert "make it" in runnable(plain)


@pytest.mark.scenario
def test_pages_run_on_the_same_servers(tmp_path: Path) -> None:
    create = "```sh\nrocketpipe serve\n```\n```sh run\nrocketpipe topic create orders\n```\n"
    (tmp_path / "first.md").write_text(create)
    done = run(tmp_path / "second.md", create, tmp_path / "first.md")
    assert done.returncode == 1
    assert "1 of 2" in done.stdout
    # whoever asks for others has them
    (tmp_path / "first.md").write_text(create.replace("serve", "serve --http 127.0.0.1:0"))
    assert run(tmp_path / "second.md", create, tmp_path / "first.md").returncode == 0


@pytest.mark.scenario
def test_servers_that_do_not_start_fail_the_page(tmp_path: Path) -> None:
    done = run(tmp_path / "page.md", PAGE_WITH_SERVERS.replace("--data", "--no-such-option"))
    assert done.returncode == 1
    assert "did not start" in done.stdout
    assert "--no-such-option" in done.stdout


@pytest.mark.scenario
def test_a_cluster_that_a_page_starts_is_there_for_its_code_and_commands(tmp_path: Path) -> None:
    up = "rocketpipe cluster up --mode single --namesrv-port 9876 --data shop"
    page = PAGE_WITH_SERVERS.replace("rocketpipe serve --data somewhere", up)
    done = run(
        tmp_path / "page.md", f"{page}\n```sh run\nrocketpipe cluster status --data shop\n```\n"
    )
    assert done.returncode == 0, done.stdout
    done = run(tmp_path / "page.md", page.replace("--mode single", "--mode best"))
    assert done.returncode == 1
    assert "rocketpipe cluster up did not start" in done.stdout


def test_what_a_page_makes_beside_the_server_may_be_there_already() -> None:
    """A reader runs a page's program twice; files that it makes are still there."""
    made = [
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in PAGES
        for line in page.read_text().splitlines()
        if 'execute("create table ' in line and "if not exists" not in line
    ]
    assert not made
