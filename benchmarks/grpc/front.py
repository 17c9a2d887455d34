"""What a call costs by itself: an empty service on grpcio's port and on ours, in turns.

Both with TLS and without; ours is HTTP/2 and gRPC of ``proxy/http2`` and ``proxy/rpc``.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import grpc
import uvloop
from benchmarks.broker.usage import cpu_ns
from benchmarks.grpc.wire import Connection

from rocketpipe.proxy.front.front import SPOKEN, Front
from rocketpipe.proxy.rpc.server import Method, RpcLimits, RpcServer
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.tls import ServerTls
from rocketpipe.remoting.tls_settings import TlsConfig

KINDS: Final = ("grpcio, plain", "ours, plain", "grpcio, TLS", "ours, TLS")
PATH: Final = "/bench.Service/Echo"
QUESTION: Final = bytes(1200)
ROUNDS: Final = 5
SECONDS: Final = 2.0
#: Connections, each with a call at a time.
CONNECTIONS: Final = (1, 64)


class Answer(bytes):
    """As a message that serialises itself."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - as protobuf has it
        return self


ANSWER: Final = Answer(120)


class Service(grpc.GenericRpcHandler):
    """Answers at once."""

    def service(self, details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(answer)


async def answer(request: bytes, call: Any) -> bytes:
    return ANSWER


async def serve(kind: str, directory: Path) -> None:
    """Serve until killed; says where."""
    pair = Authority.opened(directory).pair("server")
    if kind.startswith("ours"):
        config = TlsConfig(tls_mode="permissive", tls_cert=pair.cert, tls_key=pair.key)
        front = Front(ServerTls(config, speaks=SPOKEN))
        ours = RpcServer({PATH: Method(bytes, answer)}, RpcLimits())
        async with front.listen(ours, "127.0.0.1", 0) as address:
            print(address, flush=True)
            await asyncio.Event().wait()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Service(),))
    if kind == "grpcio, plain":
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        files = [(pair.key.read_bytes(), pair.cert.read_bytes())]
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(files))
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


async def measure(address: str, pid: int, count: int, *, tls: bool) -> float:
    """CPU of the server, µs a call."""
    opened = [await Connection.opened(address, (), tls=tls) for _ in range(count)]
    for each in opened:
        await each.call(PATH, QUESTION)

    async def ask(connection: Connection, until: float) -> int:
        done = 0
        while time.perf_counter() < until:
            await connection.call(PATH, QUESTION)
            done += 1
        return done

    before = cpu_ns(pid)
    until = time.perf_counter() + SECONDS
    calls = sum(await asyncio.gather(*(ask(each, until) for each in opened)))
    used = cpu_ns(pid) - before
    for each in opened:
        each.close()
    return used / 1000 / calls


def _started(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def main() -> None:
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="rocketpipe-bench-"))
        Authority.opened(Path(directory)).server(["localhost"])
        children = {}
        for kind in KINDS:
            command = [sys.executable, "-m", "benchmarks.grpc.front", kind, directory]
            child = _started(command)
            stack.callback(child.wait)
            stack.callback(child.kill)
            assert child.stdout is not None
            children[kind] = (child.pid, child.stdout.readline().strip())
        found: dict[tuple[str, int], list[float]] = {}
        for _ in range(ROUNDS):
            for count in CONNECTIONS:
                for kind, (pid, address) in children.items():
                    cost = await measure(address, pid, count, tls="TLS" in kind)
                    found.setdefault((kind, count), []).append(cost)
        print("| CPU of the server, µs a call | 1 x 1 | 64 x 1 |\n|---|---:|---:|")
        for kind in KINDS:
            costs = [f"{statistics.median(found[kind, count]):,.0f}" for count in CONNECTIONS]
            print(f"| {kind} | {' | '.join(costs)} |")


if __name__ == "__main__":
    work = serve(sys.argv[1], Path(sys.argv[2])) if sys.argv[1:] else main()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as servers have it
        runner.run(work)
