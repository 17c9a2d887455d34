"""What one HTTP port tells of several brokers: each has a port of its own, which is asked.

    /readyz     200 when all of them are, else 503 with the reasons of each, its name in front
    /metrics    the measurements of all, ``node_id`` says of whom; and which of them are up

One that does not answer in time has a problem, and no measurements.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from rocketpipe.auth import measured
from rocketpipe.cli.serving.fleet.fleet import Fleet
from rocketpipe.clock import Clock, within
from rocketpipe.health.bearer import BearerToken
from rocketpipe.metrics import Family, Kind, Series, render
from rocketpipe.remoting import tls
from rocketpipe.remoting.caller import split_address

#: So long a broker has for an answer, and so long the answer may be.
_PATIENCE_MS: Final = 2000
_MOST_BYTES: Final = 256 << 20
_OK: Final = 200
#: What the NameServer of this process is called among the brokers.
NAME_SERVER: Final = "namesrv"


class FleetHealth:
    """Asks the brokers when it is asked."""

    def __init__(self, fleet: Fleet, clock: Clock, token: BearerToken | None = None) -> None:
        """``token`` is what the brokers want to see."""
        self._fleet = fleet
        self._token = token
        self._clock = clock
        self.started = False

    async def problems(self) -> list[str]:
        """What keeps any of the brokers from its work now."""
        if not self.started:
            return ["it is still starting"]
        down = self._fleet.problems()
        answers = await self._asked("/readyz", but=down)
        found = dict(down)
        for name, answer in answers.items():
            if answer is None:
                found[name] = f"{name} does not answer"
            elif answer[0] != _OK:
                found[name] = "\n".join(f"{name}: {line}" for line in answer[1].splitlines())
        return [found[name] for name in sorted(found)]

    async def metrics(self, clock: Clock) -> str:
        """The measurements of all brokers that answer, and of the processes that they are."""
        answers = await self._asked("/metrics", but=self._fleet.problems())
        texts = {
            name: answer[1]
            for name, answer in answers.items()
            if answer is not None and answer[0] == _OK
        }
        own = render([*tls.families(), *measured.families()])
        return merged({**texts, NAME_SERVER: own, "": render(self._families())})

    async def finish(self) -> None:
        """Nothing is collected when nobody asks."""

    def _families(self) -> Iterable[Family]:
        down = self._fleet.problems()
        children = self._fleet.children
        return processes({name: (name not in down, children[name].starts) for name in children})

    async def _asked(self, path: str, but: Mapping[str, str]) -> dict[str, tuple[int, str] | None]:
        ports = {
            name: str(child.told["http"])
            for name, child in self._fleet.children.items()
            if name not in but
        }
        shown = self._token.text if self._token is not None else None
        answers = await asyncio.gather(
            *(_answer(at, path, self._clock, shown) for at in ports.values())
        )
        return dict(zip(ports, answers, strict=True))


def processes(brokers: Mapping[str, tuple[bool, int]]) -> Iterable[Family]:
    """What is measured of the processes of brokers: whether each serves, and its starts."""
    yield Family(
        "rocketpipe_broker_up",
        Kind.GAUGE,
        "Whether the broker's process serves; of `serve --brokers`.",
        [Series(float(up), {"node_id": name}) for name, (up, _) in brokers.items()],
    )
    yield Family(
        "rocketpipe_broker_starts_total",
        Kind.COUNTER,
        "How often the broker's process was started; of `serve --brokers`.",
        [Series(float(starts), {"node_id": name}) for name, (_, starts) in brokers.items()],
    )


def merged(texts: Mapping[str, str]) -> str:
    """Several brokers' measurements as one text: each family once, each line with its broker."""
    families: dict[str, list[str]] = {}
    for broker, text in texts.items():
        lines: list[str] = []
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
                is_new = name not in families
                lines = families.setdefault(name, [])
                if is_new:
                    lines.append(line)
            elif line.startswith("#"):
                if is_new:
                    lines.append(line)
            else:
                lines.append(_labelled(line, broker))
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def _labelled(line: str, broker: str) -> str:
    if 'node_id="' in line:
        return line
    name, brace, rest = line.partition("{")
    label = f'node_id="{broker}"'
    if brace:
        return f"{name}{{{label},{rest}"
    name, _, value = line.partition(" ")
    return f"{name}{{{label}}} {value}"


async def _answer(
    address: str, path: str, clock: Clock, token: str | None
) -> tuple[int, str] | None:
    """The status and text of an answer; None if there is none in time."""
    found: list[tuple[int, str]] = []
    try:
        await within(clock, _PATIENCE_MS, _get(address, path, token, found))
    except (OSError, ValueError, asyncio.IncompleteReadError):
        return None
    return found[0] if found else None


async def _get(address: str, path: str, token: str | None, found: list[tuple[int, str]]) -> None:
    reader, writer = await asyncio.open_connection(*split_address(address))
    try:
        shown = f"Authorization: Bearer {token}\r\n" if token is not None else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n{shown}\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        sizes = [line.partition(":")[2] for line in lines if line.startswith("Content-Length:")]
        size = int(sizes[0])
        if size > _MOST_BYTES:
            raise ValueError(f"an answer of {size} bytes")
        body = await reader.readexactly(size)
        found.append((int(lines[0].split(" ")[1]), body.decode()))
    finally:
        writer.close()
