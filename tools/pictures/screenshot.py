"""The demo's report as a picture, by a browser of this machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_S: Final = 120
#: A page goes on below the picture, and fades out where that ends.
FADE: Final = """<style>body::after{content:"";position:fixed;left:0;right:0;bottom:0;height:120px;
background:linear-gradient(transparent,Canvas)}</style></head>"""


class NotTaken(Exception):
    """There is no picture, and this says why and what to do."""


def take(page: Path, picture: Path, width: int, height: int) -> None:
    """Have a browser open a page, which needs no other, in a window of this size, and save that.

    Raises:
        NotTaken: There is no page, or no browser, or it fails.
    """
    if not page.is_file():
        raise NotTaken(f"there is no {page.name}: run make demo first")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise NotTaken(f"no browser here: install one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as scratch:
        taken, faded = Path(scratch, "taken.png"), Path(scratch, "page.html")
        text = page.read_text(encoding="utf-8")
        faded.write_text(text.replace("</head>", FADE, 1), encoding="utf-8")
        command = [
            browser,
            "--headless=new",
            "--no-sandbox",  # a page of our own, and containers let nobody make a sandbox
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            f"--user-data-dir={scratch}/profile",
            f"--window-size={width},{height}",
            f"--screenshot={taken}",
            faded.as_uri(),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise NotTaken(f"{browser} took longer than {TIMEOUT_S} s") from error
        if not taken.is_file():
            raise NotTaken(f"{browser}: {done.stderr.strip()[-300:]}")
        shutil.copyfile(taken, picture)
