"""What access control costs a broker: CPU time of a send, with it and without, in turns.

    python -m benchmarks.access_control [--sends 40000] [--rounds 7]

Both brokers run at once and get the same sends, which are signed beforehand, from one connection,
sixteen at a time and one at a time. What is printed is the server's own CPU time, the best round
of each: what else a machine does makes it longer, never shorter.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.protocol.requests.topics import UpdateAndCreateTopic
from rocketpipe.protocol.requests.users import (
    AclInfo,
    CreateAcl,
    CreateUser,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
)
from rocketpipe.remoting.caller import Caller, split_address
from rocketpipe.testing.servers import Servers, serving

ROOT: Final = Credentials("root", Secret("the-secret-of-root"))
APP: Final = Credentials("app", Secret("the-secret-of-app-0"))
SETTINGS: Final = (
    "authenticationEnabled=true\n"
    'initAuthenticationUser={"username":"root","password":"the-secret-of-root"}\n'
    'innerClientAuthenticationCredentials={"accessKey":"root","secretKey":"the-secret-of-root"}\n'
)
QUEUES: Final = 8
DIFFERENT: Final = 64


def frames(size: int) -> list[bytes]:
    """Sends that are alike but for their keys, signed."""
    made = []
    for number in range(DIFFERENT):
        request = SendMessage(
            producer_group="bench",
            topic="bench",
            default_topic="TBW102",
            default_topic_queue_nums=QUEUES,
            queue_id=number % QUEUES,
            sys_flag=0,
            born_timestamp=1_700_000_000_000,
            flag=0,
            properties=f"UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02",
            body=b"x" * size,
        )
        made.append(encode_frame(APP.sign(to_command(request, number))))
    return made


async def prepare(servers: Servers, guarded: bool) -> None:
    """Make the topic, and where users are asked for the one that sends."""
    async with Caller(sign=ROOT.sign) as caller:
        topic = UpdateAndCreateTopic(
            topic="bench",
            default_topic="TBW102",
            read_queue_nums=QUEUES,
            write_queue_nums=QUEUES,
            perm=6,
        )
        await caller.call(servers.broker, topic)
        if guarded:
            info = UserInfo(password=APP.secret.reveal())
            await caller.call(servers.broker, CreateUser(username="app", user=info))
            entry = PolicyEntryInfo(resource="Topic:bench", actions=("Pub",), decision="Allow")
            acl = AclInfo(policies=(PolicyInfo(policy_type="Custom", entries=(entry,)),))
            await caller.call(servers.broker, CreateAcl(subject="User:app", acl=acl))


def send(address: str, made: Sequence[bytes], sends: int, at_once: int) -> None:
    """Send so many, ``at_once`` of them before the answers are read."""
    portions = [
        b"".join(made[(start + each) % len(made)] for each in range(at_once))
        for start in range(0, len(made), at_once)
    ]
    with socket.create_connection(split_address(address)) as wire, wire.makefile("rb") as answers:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(sends // at_once):
            wire.sendall(portions[number % len(portions)])
            for _ in range(at_once):
                answer = answers.read(int.from_bytes(answers.read(4), "big"))
                assert b'"code":0' in answer, answer


def cpu_s(pid: int) -> float:
    """All threads together, to the nanosecond: ticks of 10 ms would be 2 % of a round."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--sends", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpipe-bench-")))
        running: dict[str, Servers] = {}
        for name in ("open", "guarded"):
            directory = scratch / name
            directory.mkdir()
            (directory / "broker.conf").write_text(SETTINGS if name == "guarded" else "")
            flags = ["-c", str(directory / "broker.conf")]
            running[name] = stack.enter_context(serving(directory, flags))
            asyncio.run(prepare(running[name], name == "guarded"))
        print(f"{'µs of the broker a send':32}{'open':>8}{'guarded':>9}{'more':>7}")
        for size in (100, 1024):
            made = frames(size)
            for at_once in (16, 1):
                best = dict.fromkeys(running, float("inf"))
                sends = options.sends if at_once > 1 else options.sends // 4
                for turn in range(options.rounds):
                    for name, servers in sorted(running.items(), reverse=bool(turn % 2)):
                        before = cpu_s(servers.process.pid)
                        send(servers.broker, made, sends, at_once)
                        taken = (cpu_s(servers.process.pid) - before) / sends * 1e6
                        best[name] = min(best[name], taken)
                row = f"{size} B, {at_once} at a time"
                more = best["guarded"] - best["open"]
                print(f"{row:32}{best['open']:8.2f}{best['guarded']:9.2f}{more:7.2f}", flush=True)


if __name__ == "__main__":
    main()
