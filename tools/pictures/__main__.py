"""Make the pictures of README.md: a recording of its commands, the servers' banner, the report.

The commands are read from the page: its ``rocketpipe serve``, and what it marks as ```sh run. They
run in real terminals, against the servers that the first one starts, on the ports that the page
names. What cannot be made here is said, and the picture that is there stays.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.docs.snippets import FENCE, shown
from tools.pictures.recording import CommandFailed, Moment, Pane
from tools.pictures.screen import NotDrawn, Screen
from tools.pictures.screenshot import NotTaken, take
from tools.pictures.svg import draw

ROOT: Final = Path(__file__).resolve().parent.parent.parent
COLUMNS: Final = 100
ROWS: Final = 17
READY: Final = "ready namesrv="
#: As wide as the report is, and down to the most of its proof.
REPORT: Final = (1080, 960)


def commands_of(page: str) -> tuple[str, list[str]]:
    """How a page starts its servers, and the commands that it has run then."""
    arguments = shown(page, "rocketpipe", "serve")
    assert arguments is not None, "the page starts servers"
    commands = [
        line
        for block in FENCE.finditer(page)
        if block["info"].split() == ["sh", "run"]
        for line in block["body"].splitlines()
    ]
    return shlex.join(["rocketpipe", "serve", *arguments]), commands


def record(page: str, pictures: Path, columns: int = COLUMNS) -> None:
    """Run a page's commands, and draw what two terminals showed.

    Raises:
        CommandFailed: One of them failed.
        NotDrawn: One of them wrote what we cannot draw.
    """
    serve, commands = commands_of(page)
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TERM": "xterm",
        "LANG": "C.UTF-8",
    }
    with tempfile.TemporaryDirectory(prefix="shop-") as directory:
        now = Moment()
        servers, user = (
            Pane(title, Screen(columns), now, Path(directory), environment)
            for title in ("a NameServer and a broker", "a second terminal")
        )
        environment["HOME"] = directory
        with servers.served(serve, READY):
            rows = servers.screen.cursor[-1][1]
            (pictures / "banner.svg").write_text(
                draw("rocketpipe serve", [(servers, rows)], moving=False), encoding="utf-8"
            )
            for command in commands:
                user.run(command)
    (pictures / "recording.svg").write_text(
        draw("RocketPipe in two terminals", [(servers, rows + 1), (user, ROWS)]), encoding="utf-8"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.pictures", description=__doc__)
    parser.add_argument("--page", type=Path, default=ROOT / "README.md", help="whose commands")
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument(
        "--report", type=Path, default=ROOT / "out" / "demo" / "report.html", help="of the demo"
    )
    given = parser.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    try:
        record(given.page.read_text(encoding="utf-8"), given.into)
    except (CommandFailed, NotDrawn) as error:
        print(f"pictures: {error}", file=sys.stderr)
        return 1
    made = ["banner.svg", "recording.svg"]
    try:
        take(given.report, given.into / "report.png", *REPORT)
        made.append("report.png")
    except NotTaken as error:
        print(f"pictures: report.png stays as it is: {error}")
    for name in made:
        size = (given.into / name).stat().st_size
        print(f"pictures: {given.into / name}, {size / 1000:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
