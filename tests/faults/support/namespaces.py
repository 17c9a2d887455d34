"""Network namespaces: processes whose cable can be pulled, so that no side is told.

this process ── bridge ─┬─ cable ── namespace 1
                        └─ cable ── namespace 2 …
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Network:
    """A bridge and the namespaces at it, by number."""

    def __init__(self) -> None:
        self._tag = f"rp{os.getpid()}"
        self._net = f"10.213.{os.getpid() % 250 + 1}"
        #: Where this process is reached from the namespaces.
        self.host = f"{self._net}.254"

    def address(self, number: int) -> str:
        return f"{self._net}.{number}"

    def inside(self, number: int) -> list[str]:
        """What a command begins with that runs in a namespace."""
        return ["ip", "netns", "exec", f"{self._tag}-{number}"]

    def open(self) -> None:
        _ip(f"link add {self._tag} type bridge")
        _ip(f"addr add {self.host}/24 dev {self._tag}")
        _ip(f"link set {self._tag} up")

    def add(self, number: int) -> None:
        name, cable, end = f"{self._tag}-{number}", f"{self._tag}c{number}", f"{self._tag}e{number}"
        _ip(f"netns add {name}")
        _ip(f"link add {cable} type veth peer name {end}")
        _ip(f"link set {end} netns {name}")
        _ip(f"link set {cable} master {self._tag}")
        _ip(f"-n {name} addr add {self.address(number)}/24 dev {end}")
        for link in ("lo", end):
            _ip(f"-n {name} link set {link} up")
        self.heal(number)

    def cut(self, number: int) -> None:
        _ip(f"link set {self._tag}c{number} down")

    def heal(self, number: int) -> None:
        _ip(f"link set {self._tag}c{number} up")

    def close(self, numbers: range) -> None:
        for number in numbers:
            _ip(f"netns del {self._tag}-{number}", check=False)
        _ip(f"link del {self._tag}", check=False)


@contextmanager
def network(count: int) -> Iterator[Network]:
    """So many namespaces from 1 on, for the length of the block; skips where none can be made."""
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the command `ip`: install iproute2")
    made = Network()
    numbers = range(1, count + 1)
    try:
        try:
            made.open()
            for number in numbers:
                made.add(number)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine makes no network namespaces: {error.stderr.strip()}")
        yield made
    finally:
        made.close(numbers)


def _ip(words: str, *, check: bool = True) -> None:
    subprocess.run(["ip", *words.split()], check=check, capture_output=True, text=True)
