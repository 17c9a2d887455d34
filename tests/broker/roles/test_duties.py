"""A role's features can be built on a core, taken down without a trace, and built again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.broker.support.core_parts import built

from rocketpipe.broker.core import Core
from rocketpipe.broker.roles.duties import FEATURES, background, role
from rocketpipe.broker.roles.follower_duties import follower_role
from rocketpipe.model.topic import Perm
from rocketpipe.protocol.requests.popping import PopMessage
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.protocol.requests.transactions import EndTransaction


def traces(core: Core) -> tuple[object, ...]:
    """All that a feature leaves in a core when it is built."""
    pins = {(pin.owner, pin.offset) for pin in core.pins._pins}
    return (
        list(core.arrivals._listeners),
        list(core.settings._watchers),
        set(core.settings._watched),
        pins,
    )


async def test_a_role_is_taken_down_without_a_trace_and_built_again(tmp_path: Path) -> None:
    async with built(tmp_path) as core:
        before = traces(core)
        for _ in range(2):
            with role(core) as serving:
                assert traces(core) != before
                assert len(serving.features) == len(FEATURES)
                for request in (SendMessage, PopMessage, EndTransaction):
                    assert set(request.codes) <= serving.router.codes
                assert "open transactions" in background(core, serving)
            assert traces(core) == before


async def test_no_two_loops_have_one_name(tmp_path: Path) -> None:
    async with built(tmp_path) as core:
        with role(core) as serving:
            of_features = [name for feature in serving.features for name in feature.loops]
            assert len(of_features) == len(set(of_features))
            own = set(background(core, serving)) - set(of_features)
            assert {"retention", "dispatch", "repairs", "queue locks"} <= own


@pytest.mark.parametrize("leads", [True, False])
async def test_only_who_leads_delivers_what_was_delayed_and_ages_locks(
    tmp_path: Path, leads: bool
) -> None:
    async with built(tmp_path) as core:
        with role(core) as serving:
            loops = set(background(core, serving, leads=leads))
            assert ({"delayed messages", "queue locks"} <= loops) == leads
            assert {"retention", "dispatch", "silent clients"} <= loops


async def test_one_role_follows_another_on_a_core(tmp_path: Path) -> None:
    async with built(tmp_path) as core:
        before = traces(core)
        for _ in range(2):
            with follower_role(core, lambda: None, lambda: False, me=2) as following:
                assert following.fast_path is None
            with role(core) as leading:
                assert leading.fast_path is not None
        assert traces(core) == before


async def test_settings_that_change_reach_the_role_and_whoever_comes_next(tmp_path: Path) -> None:
    async with built(tmp_path) as core:
        with role(core):
            core.settings.change({"brokerPermission": "4"})
            assert core.planner.rules.permission == Perm.READ
        with follower_role(core, lambda: None, lambda: False, me=2):
            assert core.planner.rules.permission == Perm.READ
            core.settings.change({"brokerPermission": "6"})
            assert core.planner.rules.permission == Perm.READ | Perm.WRITE
