from __future__ import annotations

import pytest

from rocketpipe.model.group import (
    DELAYS_MS,
    CustomizedRetry,
    ExponentialRetry,
    GroupSettings,
    RetryPolicy,
    RetryPolicyType,
)


def test_there_are_eighteen_delay_levels_from_a_second_to_two_hours() -> None:
    assert len(DELAYS_MS) == 18
    assert DELAYS_MS[0] == 1_000
    assert DELAYS_MS[4] == 60_000
    assert DELAYS_MS[-1] == 7_200_000


@pytest.mark.parametrize(
    ("attempts", "delay_ms"),
    [(-1, 10_000), (0, 10_000), (1, 30_000), (15, 7_200_000), (99, 7_200_000)],
)
def test_retries_wait_from_the_third_level_on(attempts: int, delay_ms: int) -> None:
    assert GroupSettings(name="g").retry_policy.delay_ms(attempts) == delay_ms


@pytest.mark.parametrize(
    ("attempts", "delay_ms"), [(-1, 5_000), (0, 5_000), (1, 10_000), (3, 40_000), (1000, 7_200_000)]
)
def test_exponential_waits_double_up_to_their_limit(attempts: int, delay_ms: int) -> None:
    policy = RetryPolicy(type=RetryPolicyType.EXPONENTIAL, exponential=ExponentialRetry())
    assert policy.delay_ms(attempts) == delay_ms


def test_the_greatest_factor_of_java_does_not_overflow() -> None:
    policy = ExponentialRetry(initial=(1 << 63) - 1, multiplier=(1 << 63) - 1, limit=7)
    assert policy.delay_ms(32) == 7


def test_listed_waits_are_taken_in_turn_and_the_last_repeats() -> None:
    policy = RetryPolicy(customized=CustomizedRetry(delays=(1, 2, 3, 4)))
    assert [policy.delay_ms(attempts) for attempts in range(4)] == [3, 4, 4, 4]


def test_an_empty_list_of_waits_waits_not_at_all() -> None:
    assert CustomizedRetry(delays=()).delay_ms(0) == 0


def test_a_policy_without_its_details_falls_back_to_the_levels() -> None:
    assert RetryPolicy(type=RetryPolicyType.EXPONENTIAL).delay_ms(0) == 10_000
