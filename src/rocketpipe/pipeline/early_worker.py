"""A Python of Spark's that connects back at once, and imports what it runs on afterwards.

    python early_worker.py pyspark.sql.connect.streaming.worker.foreach_batch_worker

Spark waits ten seconds for a Python that it has started to connect, which nobody can change. Those
of ``foreachBatch`` over Spark Connect are not forked by a daemon, and import for seconds of CPU
before they do: on a busy machine none of them ever came in time. Nothing but the standard library
is imported here before the connection is made and let in; PySpark then finds it made.
"""

import os
import runpy
import socket
import struct
import sys
from collections.abc import Callable
from typing import IO, Any

Connected = tuple[IO[bytes], socket.socket]


def connected() -> Connected:
    """The connection to the JVM that started this process, let in by it.

    Raises:
        OSError: It cannot be made.
    """
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    timeout_s = int(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", "15"))
    if path is not None:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        channel.settimeout(timeout_s)
        channel.connect(path)
    else:
        is_6 = os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true"
        port = int(os.environ["PYTHON_WORKER_FACTORY_PORT"])
        channel = socket.create_connection(("::1" if is_6 else "127.0.0.1", port), timeout_s)
    file: Any = channel.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", "65536")))
    secret = os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
    if secret is not None:
        said = secret.encode()
        file.write(struct.pack(">i", len(said)) + said)
        file.flush()
        (length,) = struct.unpack(">i", file.read(4))
        if file.read(length) != b"ok":
            raise OSError("Spark does not know the secret that it gave")
    return file, channel


def once(made: Connected, connect: Callable[..., Any]) -> Callable[..., Any]:
    """PySpark's way to connect, of which the first call finds the connection made."""
    left = [made]

    def connects(*given: Any, **named: Any) -> Any:
        return left.pop() if left else connect(*given, **named)

    return connects


def main(module: str) -> None:
    """Run a module of PySpark's as Spark would."""
    made = connected()
    sys.path[0] = ""  # where a module that is run by its name is looked for first
    sys.argv = sys.argv[1:]
    from pyspark import util

    util.local_connect_and_auth = once(made, util.local_connect_and_auth)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
