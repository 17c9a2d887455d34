"""Our client beside other people's, each in a process of its own, against the same broker.

    ours, 256           Producer.send from 256 tasks
    ours, 1             the same from one task: each send waits for the answer to the one before
    ali-ons, 256        npm's client, 256 sends under way
    rocketmq (C++), 1   PyPI's client, send_sync from one thread: several would lose messages

Where one of them cannot be had, or does not run, that is said and the others are measured. They
are fetched as the tests of compatibility do it, into the user's cache.
``make bench-client BENCH="--rounds 5 --messages 50000"``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.compat.clients import installing

from rocketpipe import blocking
from rocketpipe.testing.servers import serving

TOPIC: Final = "bench"
RUN_TIMEOUT_S: Final = 120

#: Each prints how many messages a second it sent: NAMESERVER TOPIC MESSAGES WINDOW.
OURS: Final = """
import asyncio, sys, time
from rocketpipe import Producer

async def main(servers, topic, messages, window):
    body, left = b"x" * 128, messages
    async with Producer(servers) as producer:
        await producer.send(topic, body)

        async def work():
            nonlocal left
            while left > 0:
                left -= 1
                await producer.send(topic, body)

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(window)))
        print(messages / (time.perf_counter() - began))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
"""
CPP: Final = """
import os, sys, time
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the library writes there too
from rocketmq.client import Message, Producer, SendStatus

servers, topic, messages = sys.argv[1], sys.argv[2], int(sys.argv[3])
producer = Producer("bench-cpp")
producer.set_namesrv_addr(servers)
producer.start()

def send():
    message = Message(topic)
    message.set_body(b"x" * 128)  # it stops at a zero
    assert producer.send_sync(message).status == SendStatus.OK

send()
began = time.perf_counter()
for _ in range(messages):
    send()
out.write(str(messages / (time.perf_counter() - began)))
out.flush()
os._exit(0)  # its own way out may hang
"""
ALI_ONS: Final = """
'use strict';
const { Producer, Message } = require('ali-ons');
const [, , nameSrv, topic, messages, window] = process.argv;
const logger = { debug() {}, info() {}, warn() {}, error: console.error };
const httpclient = { request() { throw new Error('nothing is to be asked of the web'); } };

(async () => {
  const producer = new Producer({ nameSrv, logger, httpclient, producerGroup: 'bench-ali-ons' });
  await producer.ready();
  const body = Buffer.alloc(128, "x");
  const send = async () => {
    const result = await producer.send(new Message(topic, body));
    if (result.sendStatus !== 'SEND_OK') throw new Error(result.sendStatus);
  };
  await send();
  let left = Number(messages);
  const work = async () => { while (left-- > 0) await send(); };
  const began = process.hrtime.bigint();
  await Promise.all(Array.from({ length: Number(window) }, work));
  console.log(Number(messages) / (Number(process.hrtime.bigint() - began) / 1e9));
  process.exit(0);
})().catch(error => { console.error(error); process.exit(1); });
"""


class Program(NamedTuple):
    """How a client is run, and how many sends it has under way."""

    command: list[str]
    window: int
    environ: Mapping[str, str] = os.environ


class NotRun(Exception):
    """A client cannot be had, or did not do what it should."""


def ours(window: int) -> Program:
    return Program([sys.executable, "-c", OURS], window)


def cpp(scratch: Path) -> Program:
    packages = installing.python_packages()
    environ = {**os.environ, "HOME": str(scratch), "PYTHONPATH": str(packages)}
    return Program([sys.executable, "-c", CPP], 1, environ)


def ali_ons(scratch: Path) -> Program:
    node = installing.node()
    program = scratch / "ali-ons.js"
    program.write_text(ALI_ONS)
    modules = installing.node_packages(node) / "node_modules"
    return Program([str(node), str(program)], 256, {**os.environ, "NODE_PATH": str(modules)})


def rate(program: Program, name_server: str, messages: int) -> float:
    """Messages a second, as the program measures it.

    Raises:
        NotRun: If it fails, or takes too long.
    """
    arguments = [name_server, TOPIC, str(messages), str(program.window)]
    try:
        done = subprocess.run(
            [*program.command, *arguments],
            env=dict(program.environ),
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRun(str(error)[:200]) from error
    try:
        return float(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise NotRun(f"it ended with {done.returncode}: {said[-1][:200]}") from None


def main() -> None:
    parser = argparse.ArgumentParser(description="Our client beside other people's.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20_000)
    options, _ = parser.parse_known_args()  # the others are for the asyncio clients' benchmark
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory, serving(Path(directory)) as servers:
        scratch = Path(directory)
        with blocking.Producer(servers.name_server) as producer:
            producer.send(TOPIC, b"creates the topic")
        kinds: dict[str, Callable[[], Program]] = {
            "ours, 256": lambda: ours(256),
            "ours, 1": lambda: ours(1),
            "ali-ons, 256": lambda: ali_ons(scratch),
            "rocketmq (C++), 1": lambda: cpp(scratch),
        }
        programs: dict[str, Program] = {}
        for name, make in kinds.items():
            try:
                programs[name] = make()
            except pytest.skip.Exception as reason:
                print(f"{name}: NOT MEASURED: {reason}")
        for _ in range(options.rounds):
            for name, program in list(programs.items()):
                count = options.messages if program.window > 1 else options.messages // 4
                try:
                    best[name] = max(best.get(name, 0), rate(program, servers.name_server, count))
                except NotRun as error:
                    print(f"{name}: NOT MEASURED: {error}")
                    del programs[name]
    print(f"\n{'':20}{'messages/s':>12}")
    for name, found in best.items():
        print(f"{name:20}{found:12,.0f}")


if __name__ == "__main__":
    main()
