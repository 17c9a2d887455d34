"""Sends what files of the examples have: a message for each line.

    python examples/pipelines/send.py examples/pipelines/visits/data/1.jsonl

A line has `topic` and `body`, and may have `keys`, `tags` and `order_by`: messages with the same
`order_by` go to one queue. `ROCKETPIPE_NAMESRV` names the servers.
"""

import json
import os
import sys
from pathlib import Path

from rocketpipe.blocking import Producer


def send(name_server: str, *files: Path) -> int:
    """Send all of them, in order; how many there were."""
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    with Producer(name_server) as producer:
        for line in lines:
            message = json.loads(line)
            body = json.dumps(message.pop("body")).encode()
            producer.send(message.pop("topic"), body, **message)
    return len(lines)


if __name__ == "__main__":
    servers = os.environ.get("ROCKETPIPE_NAMESRV", "127.0.0.1:9876")
    print(f"{send(servers, *map(Path, sys.argv[1:]))} messages sent")
