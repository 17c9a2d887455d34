"""A program: sends to one broker, and writes a line for each message: when it was sent, and "0" if
it was acknowledged, or why not.

python -m tests.faults.support.local_sender <address>
"""

from __future__ import annotations

import asyncio
import sys
import time
from itertools import count

from tests.broker.support.asking import message

from rocketpipe.errors import RocketPipeError
from rocketpipe.remoting.caller import Caller


async def main(address: str) -> None:
    async with Caller() as caller:
        for number in count():
            sent_s, said = time.monotonic(), "0"
            try:
                await caller.call(address, message("orders", b"local %d" % number))
            except RocketPipeError as error:
                said = str(error)
            sys.stdout.write(f"{sent_s} {number} {said}\n")
            sys.stdout.flush()
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
