"""What is printed at the end."""

from __future__ import annotations

import shlex
from pathlib import Path

from demo.proof import prove
from demo.report import commands, figures, next_steps, summary
from demo.servers import Servers
from tests.demo.support.staged import staged


def test_the_proof_is_a_table_with_a_sign_by_each_row(tmp_path: Path) -> None:
    facts, run = staged(tmp_path)
    run.evidence.in_topic -= 1
    lines = summary(run, prove(facts, run.evidence), 3.0).splitlines()
    rows = [line.split() for line in lines]
    head = rows.index(["expected", "found", "not", "yet", "lost", "twice"])
    table = lines[head : lines.index("", head)]
    assert max(map(len, table)) <= 80  # a terminal's width, so that no row wraps
    assert ["✗", "stored", "in", "the", "topic", "40", "39", "0", "1", "0"] in rows
    assert ["✓", "table", "of", "flights", "40", "40", "0", "0", "0"] in rows
    assert any(line.startswith("  ✓ order per aircraft held") for line in lines)


def test_what_happened_on_the_way_is_told(tmp_path: Path) -> None:
    _, run = staged(tmp_path)
    told = figures(run, 3.0)
    assert "on the way: a pass of the pipeline failed: a Python worker was ended" in told
    assert "ali-ons received 10 flights as a member of the group" in told


def test_a_guest_that_did_not_come_is_told_with_the_reason(tmp_path: Path) -> None:
    _, run = staged(tmp_path)
    run.evidence.small.guests.found = 0
    run.evidence.small.trouble = "ali-ons: no Node.js"
    assert "the guest received nothing more: ali-ons: no Node.js" in figures(run, 3.0)


def test_three_commands_follow_which_a_shell_can_read(tmp_path: Path) -> None:
    servers = Servers(tmp_path)
    found = commands(tmp_path, servers, keep=False)
    assert len(found) == 3
    assert shlex.split(found[0][1])[-2:] == ["pipeline", "show"]
    _, flag, program = shlex.split(found[1][1])
    assert flag == "-c"
    compile(program, "command", "exec")
    assert shlex.split(found[2][1])[-2:] == ["--data", str(tmp_path / "store")]
    said = next_steps(tmp_path / "report.html", servers, keep=False)
    assert (tmp_path / "report.html").as_uri() in said
