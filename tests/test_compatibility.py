"""docs/reference/compatibility.md says what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.docs.compatibility import REFUSED_RPCS, RPCS

from rocketpipe.protocol.codes import RequestCode
from rocketpipe.proxy.v2 import rpcs

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "compatibility.md"


def test_the_page_is_what_the_program_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "tools.docs.compatibility"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout.decode()
    assert PAGE.read_text() == printed, (
        "python -m tools.docs.compatibility > docs/reference/compatibility.md"
    )


def test_every_rpc_is_listed() -> None:
    assert {rpc.name for rpc in rpcs.RPCS} == {*RPCS, *REFUSED_RPCS}
    page = PAGE.read_text()
    for name in (*RPCS, *REFUSED_RPCS):
        assert name in page


def test_the_page_names_every_code_once() -> None:
    page = PAGE.read_text()
    for code in RequestCode:
        assert page.count(f"| {int(code)} | {code.name} |") == 1
