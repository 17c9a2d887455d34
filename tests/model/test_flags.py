from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpipe.model.flags import (
    COMPRESSED,
    Compression,
    PullFlag,
    Transaction,
    compression_of,
    transaction_of,
    with_compression,
    with_transaction,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


@pytest.mark.parametrize(
    ("sys_flag", "state"),
    [(0, "NONE"), (4, "PREPARED"), (8, "COMMITTED"), (12, "ROLLED_BACK"), (-1, "ROLLED_BACK")],
)
def test_two_bits_tell_the_transaction_state(sys_flag: int, state: str) -> None:
    assert transaction_of(sys_flag) is Transaction[state]


@given(INT32, st.sampled_from(Transaction))
def test_changing_the_transaction_state_leaves_all_other_bits(
    sys_flag: int, state: Transaction
) -> None:
    changed = with_transaction(sys_flag, state)
    assert transaction_of(changed) is state
    assert changed & ~12 == sys_flag & ~12


@pytest.mark.parametrize(
    ("sys_flag", "kind"),
    [
        (0x000, None),
        (0x300, None),  # a type, but nothing is compressed
        (0x001, Compression.ZLIB),  # what 4.x writes
        (0x101, Compression.LZ4),
        (0x201, Compression.ZSTD),
        (0x301, Compression.ZLIB),
    ],
)
def test_compression_needs_the_bit_and_defaults_to_zlib(
    sys_flag: int, kind: Compression | None
) -> None:
    assert compression_of(sys_flag) is kind


@pytest.mark.parametrize("bits", [4, 5, 6, 7])
def test_a_compression_that_does_not_exist_is_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="Compression"):
        compression_of(bits << 8 | COMPRESSED)


@given(INT32, st.sampled_from([*Compression, None]))
def test_setting_the_compression_can_be_read_back(sys_flag: int, kind: Compression | None) -> None:
    changed = with_compression(sys_flag, kind)
    assert compression_of(changed) is kind
    assert changed & ~0x701 == sys_flag & ~0x701


def test_pull_flags_have_the_wire_values() -> None:
    assert [int(flag) for flag in PullFlag] == [1, 2, 4, 8, 16]
    assert PullFlag(7) == PullFlag.COMMIT_OFFSET | PullFlag.SUSPEND | PullFlag.SUBSCRIPTION
