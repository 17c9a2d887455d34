"""Digests of rows, many at a time: by them two tables are compared without being side by side.

A row's digest is 64 bits of all its values, each in its column. Two rows that differ anywhere have
the same one once in 2^64, and it does not matter in which order, file or batch rows are found: the
digests of a set of rows are put together by exclusive or.

Bodies have the digest that Spark's ``xxhash64`` gives, which is XXH64 with a seed of 42.
``_digests.pyx`` is the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketpipe import compiled

Words: TypeAlias = npt.NDArray[np.uint64]
Places: TypeAlias = npt.NDArray[np.int64]

SPARKS_SEED: Final = 42
#: What a NULL has for a digest.
NULL: Final = np.uint64(0x9E6C63D0676A9A99)

_P1: Final = np.uint64(0x9E3779B185EBCA87)
_P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_P3: Final = np.uint64(0x165667B19E3779F9)
_P4: Final = np.uint64(0x85EBCA77C2B2AE63)
_P5: Final = np.uint64(0x27D4EB2F165667C5)
_MASK: Final = (1 << 64) - 1
_STRIPE: Final = 32


def of_bodies(bodies: pa.Array) -> pa.Array:
    """The digests of bodies, as ``xxhash64`` of Spark's SQL has them."""
    return pa.array(hashed(bodies, SPARKS_SEED).view(np.int64), pa.int64())


def of_rows(columns: Iterable[Words], count: int) -> Words:
    """The digests of rows, of those of their values in each column."""
    digests = np.zeros(count, np.uint64)
    for number, column in enumerate(columns, 1):
        digests = mixed(digests ^ column + np.uint64((number * int(_P3)) & _MASK))
    return digests


def of_column(column: pa.Array) -> Words:
    """The digests of a column's values.

    Raises:
        TypeError: If there is no digest of such values.
    """
    digests = _of_values(column)
    if column.null_count:
        digests = np.where(np.asarray(column.is_null()), NULL, digests)
    return digests


def mixed(words: Words) -> Words:
    """Words of which every bit depends on all bits of those given."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def hashed(texts: pa.Array, seed: int = 0) -> Words:
    """XXH64 of texts or bytes; of a NULL, whatever comes."""
    is_large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    _, offsets, data = texts.buffers()
    if not len(texts):
        return np.empty(0, np.uint64)
    kind = np.dtype(np.int64 if is_large else np.int32)
    ends = np.frombuffer(offsets, kind, len(texts) + 1, texts.offset * kind.itemsize)
    ends = ends.astype(np.int64)
    held = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return np.frombuffer(hash_runs(held, ends, seed), np.uint64)


def hash_runs(data: npt.NDArray[np.uint8], edges: Places, seed: int) -> bytes:
    """XXH64 of what lies between each two edges, as words behind each other."""
    with np.errstate(over="ignore"):
        return _xxh64(data, edges[:-1], np.diff(edges), seed).tobytes()


def _xxh64(data: npt.NDArray[np.uint8], starts: Places, lengths: Places, seed: int) -> Words:
    digests = np.full(len(starts), (seed + int(_P5)) & _MASK, np.uint64)
    long = np.flatnonzero(lengths >= _STRIPE)
    if len(long):
        digests[long] = _striped(data, starts[long], lengths[long] // _STRIPE, seed)
    digests += lengths.astype(np.uint64)
    at = starts + lengths // _STRIPE * _STRIPE
    left = lengths % _STRIPE
    words, halves = _view(data, "<u8"), _view(data, "<u4")
    for _ in range(int(left.max(initial=0)) // 8):
        rows = _those(left >= 8)
        taken = digests[rows] ^ _round(np.uint64(0), words[at[rows]])
        digests[rows] = _rotated(taken, 27) * _P1 + _P4
        at[rows] += 8
        left[rows] -= 8
    if bool((left >= 4).any()):
        rows = _those(left >= 4)
        taken = digests[rows] ^ (halves[at[rows]].astype(np.uint64) * _P1)
        digests[rows] = _rotated(taken, 23) * _P2 + _P3
        at[rows] += 4
        left[rows] -= 4
    for _ in range(int(left.max(initial=0))):
        rows = _those(left > 0)
        taken = digests[rows] ^ (data[at[rows]].astype(np.uint64) * _P5)
        digests[rows] = _rotated(taken, 11) * _P1
        at[rows] += 1
        left[rows] -= 1
    digests = (digests ^ (digests >> np.uint64(33))) * _P2
    digests = (digests ^ (digests >> np.uint64(29))) * _P3
    return digests ^ (digests >> np.uint64(32))


def _those(mask: npt.NDArray[np.bool_]) -> Any:
    """Where it is so; of texts that are all as long, that is everywhere, and nothing is copied."""
    return slice(None) if mask.all() else np.flatnonzero(mask)


def _striped(data: npt.NDArray[np.uint8], starts: Places, stripes: Places, seed: int) -> Words:
    first, second = int(_P1), int(_P2)
    begun = (seed + first + second, seed + second, seed, seed - first)
    lanes = [np.full(len(starts), each & _MASK, np.uint64) for each in begun]
    words = _view(data, "<u8")
    for number in range(int(stripes.max())):
        rows: Any = slice(None) if stripes.min() > number else np.flatnonzero(stripes > number)
        at = starts[rows] + number * _STRIPE
        for lane, held in enumerate(lanes):
            held[rows] = _round(held[rows], words[at + lane * 8])
    turned = [_rotated(held, by) for held, by in zip(lanes, (1, 7, 12, 18), strict=True)]
    digests = turned[0] + turned[1] + turned[2] + turned[3]
    for held in lanes:
        digests = (digests ^ _round(np.uint64(0), held)) * _P1 + _P4
    return digests


def _round(held: Any, words: Words) -> Words:
    return _rotated(held + words * _P2, 31) * _P1


def _rotated(words: Words, by: int) -> Words:
    return (words << np.uint64(by)) | (words >> np.uint64(64 - by))


def _view(data: npt.NDArray[np.uint8], kind: str) -> npt.NDArray[Any]:
    """The word that begins at each byte."""
    width = np.dtype(kind).itemsize
    if len(data) < width:
        return np.empty(0, kind)
    return np.ndarray((len(data) - width + 1,), kind, data, strides=(1,))


def _of_values(column: pa.Array) -> Words:
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return of_column(column.dictionary_decode())
    if types.is_null(kind):
        return np.full(len(column), NULL)
    if types.is_list(kind) or types.is_large_list(kind):
        return _of_lists(column, of_column(column.flatten()))
    if types.is_map(kind):
        whole = column.take(pa.array(range(len(column)), pa.int64()))  # not a part of another
        pairs = of_rows([of_column(whole.keys), of_column(whole.items)], len(whole.keys))
        return _of_lists(column, pairs)
    if types.is_struct(kind):
        return of_rows(map(of_column, column.flatten()), len(column))
    if types.is_decimal(kind):
        return hashed(column.cast(pa.string()))
    if types.is_string(kind) or types.is_binary(kind):
        return hashed(column)
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return hashed(column)
    return mixed(_bits(column))


def _bits(column: pa.Array) -> Words:
    kind, types = column.type, pa.types
    if types.is_floating(kind):
        numbers = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False).copy()
        numbers[np.isnan(numbers)] = np.nan  # of many, one
        bits: Words = numbers.view(np.uint64)
        return bits
    if types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not types.is_integer(kind):
        raise TypeError(f"there is no digest of {kind}")
    whole = column.cast(pa.uint64() if types.is_uint64(kind) else pa.int64())
    held: npt.NDArray[Any] = pc.fill_null(whole, 0).to_numpy(zero_copy_only=False)
    return held.view(np.uint64)


def _of_lists(column: pa.Array, children: Words) -> Words:
    """The digests of lists, of those of what they hold, in order."""
    lengths = (
        np.diff(np.asarray(column.offsets))
        if pa.types.is_map(column.type)
        else pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ).astype(np.int64)
    if pa.types.is_map(column.type) and column.null_count:
        lengths = np.where(np.asarray(column.is_null()), 0, lengths)
    ends = np.cumsum(lengths)
    places = np.arange(len(children)) - np.repeat(ends - lengths, lengths)
    summed = np.concatenate(
        [np.zeros(1, np.uint64), np.cumsum(mixed(children + places.astype(np.uint64) * _P5))]
    )
    return mixed(summed[ends] - summed[ends - lengths] + lengths.astype(np.uint64) * _P4)


compiled.take_over(globals(), "rocketpipe.tables._digests")
