"""An operator sees where a client is, and not more than fits."""

from __future__ import annotations

import asyncio
import threading

from rocketpipe.client.stacks import MAX_STACK_CHARS, stack_text


async def test_stacks_show_tasks_and_threads_and_have_an_end() -> None:
    begun, end = threading.Event(), threading.Event()

    def wait_here() -> None:
        begun.set()
        end.wait(30)

    thread = threading.Thread(target=wait_here, name="a thread of ours")
    thread.start()
    begun.wait(30)
    task = asyncio.create_task(asyncio.Event().wait(), name="a task of ours")
    await asyncio.sleep(0)
    text = stack_text()
    end.set()
    thread.join()
    task.cancel()
    assert '"thread a thread of ours"' in text
    assert "at wait_here (" in text
    assert '"task a task of ours"' in text
    assert len(text) <= MAX_STACK_CHARS
