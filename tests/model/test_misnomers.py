from __future__ import annotations

import pytest

from rocketpipe.model.misnomers import check_names, meant_by

KNOWN = ("max_attempts", "retry_queues")


@pytest.mark.parametrize("name", ["max_retries", "retry_max_times", "max_atempts"])
def test_a_wrong_name_gets_the_right_one_and_what_it_counts(name: str) -> None:
    with pytest.raises(
        TypeError, match=rf"thing has no '{name}': use max_attempts \(.*the first attempt too"
    ):
        check_names("thing", [name], KNOWN)


def test_what_nobody_can_guess_gets_no_hint() -> None:
    check_names("thing", KNOWN, KNOWN)
    with pytest.raises(TypeError, match=r"thing has no 'colour'$"):
        check_names("thing", ["colour"], KNOWN)
    assert meant_by("retry_queue", KNOWN) == "retry_queues"
    assert meant_by("max_retries", ["retry_queues"]) is None
