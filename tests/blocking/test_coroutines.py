"""Coroutines of one's own on the clients' loop."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest
from tests.blocking.test_background import run_script

from rocketpipe.blocking import Background
from rocketpipe.errors import LoopBlocked, SessionClosed


async def thread_name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_they_run_on_the_loop_of_the_clients() -> None:
    with Background() as background, Background() as other:
        assert background.run(thread_name()) == "rocketpipe"
        assert other.start(thread_name()).result(60) == "rocketpipe"
        assert background.is_ours
        assert not background.is_here

        async def look() -> bool:
            with pytest.raises(LoopBlocked):
                other.run(thread_name())
            return background.is_here

        assert background.run(look())


def test_what_one_raises_is_raised_or_kept() -> None:
    async def fails() -> None:
        raise OSError("no")

    with Background() as background:
        with pytest.raises(OSError, match="no"):
            background.run(fails())
        with pytest.raises(OSError, match="no"):
            background.start(fails()).result(60)


def test_calls_that_wait_for_nothing_are_made_in_their_order() -> None:
    told: list[int] = []
    with Background() as background:
        for number in range(100):
            background.tell(told.append, number)
        assert background.run(thread_name()) == "rocketpipe"
        assert told == list(range(100))
    with pytest.raises(SessionClosed):
        background.tell(told.append, 100)


def test_outside_of_its_block_nothing_is_begun() -> None:
    background = Background()
    for use in (background.run, background.start):
        with pytest.raises(SessionClosed):
            use(thread_name())
    background.open()
    background.close()
    with pytest.raises(SessionClosed):
        background.start(thread_name())
    assert background.is_ours
    assert not background.is_here


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_is_told_and_opens_its_own() -> None:
    run_script(
        """
        import asyncio, os
        from rocketpipe.blocking import Background
        from rocketpipe.errors import ProcessForked

        async def who(): return os.getpid()

        with Background() as background:
            assert background.run(who()) == os.getpid()
            child = os.fork()
            if child == 0:
                assert not background.is_ours
                for use in (background.run, background.start):
                    try:
                        use(who())
                    except ProcessForked:
                        pass
                    else:
                        os._exit(1)
                with Background() as own:
                    os._exit(0 if own.run(who()) == os.getpid() else 2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert background.run(who()) == os.getpid()
        """
    )
