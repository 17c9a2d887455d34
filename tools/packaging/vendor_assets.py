"""Bring others' scripts into the console's pages, as they were published, pinned by hash.

    python -m tools.packaging.vendor_assets          fetch what VERSIONS.json names, and write it
    python -m tools.packaging.vendor_assets --check  compare what is there with VERSIONS.json

It asks npm for packages by name and version, and takes files out of them unchanged.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).parents[2] / "src" / "rocketpipe" / "console" / "pages" / "vendor"
PINS = "VERSIONS.json"


class NotAsPinned(Exception):
    """A package or a file is not the one that was pinned."""


def pins(vendor: Path = VENDOR) -> list[dict[str, Any]]:
    """What is pinned: each package with its version, its licence, and its files with hashes."""
    packages: list[dict[str, Any]] = json.loads((vendor / PINS).read_text())["packages"]
    return packages


def check(vendor: Path = VENDOR) -> list[str]:
    """The files that are not as they were pinned, and those that nobody pinned."""
    wanted = {file["as"]: file["sha256"] for package in pins(vendor) for file in package["files"]}
    there = {path.name for path in vendor.iterdir()} - {PINS}
    wrong = [
        name
        for name, digest in wanted.items()
        if name not in there or hashlib.sha256((vendor / name).read_bytes()).hexdigest() != digest
    ]
    return sorted([*wrong, *(there - set(wanted))])


def fetch(vendor: Path = VENDOR) -> None:
    """Write the pinned files anew.

    Raises:
        NotAsPinned: If what npm gave is something else.
    """
    for package in pins(vendor):
        named = f"{package['name']}@{package['version']}"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["npm", "pack", "--silent", named], cwd=folder, check=True, stdout=-3)
            (tarball,) = Path(folder).glob("*.tgz")
            packed = tarball.read_bytes()
        digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()
        if f"sha512-{digest}" != package["integrity"]:
            raise NotAsPinned(f"{named}: its tarball is sha512-{digest}")
        with tarfile.open(fileobj=io.BytesIO(packed)) as opened:
            for file in package["files"]:
                member = opened.extractfile(f"package/{file['from']}")
                if member is None:
                    raise NotAsPinned(f"{named}: no {file['from']}")
                (vendor / file["as"]).write_bytes(member.read())
    if wrong := check(vendor):
        raise NotAsPinned(", ".join(wrong))


def main(arguments: list[str]) -> int:
    if "--check" not in arguments:
        fetch()
    wrong = check()
    for name in wrong:
        sys.stderr.write(f"{name}: not as pinned in {PINS}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
