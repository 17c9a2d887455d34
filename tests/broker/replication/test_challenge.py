"""What two brokers prove to each other, byte by byte."""

from __future__ import annotations

import hashlib
import hmac
import random

import pytest

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.broker.replication.challenge import (
    MAGIC,
    FollowerAnswers,
    LeaderAsks,
    NotProven,
)

SECRET = Secret("the-secret-of-the-brokers")
INNER = Credentials("inner", SECRET)


def leader(*secrets: Secret) -> LeaderAsks:
    return LeaderAsks(lambda name: list(secrets) if name == "inner" else [])


def test_both_sides_know_the_same_secret() -> None:
    asks, answers = leader(Secret("another-one"), SECRET), FollowerAnswers(INNER)
    hello, rest = asks.receive(answers.hello())
    assert (hello[:8], len(hello), rest) == (MAGIC, 40, None)
    answer = answers.receive(hello)
    assert not answers.is_done
    proof, rest = asks.receive(answer + b"the handshake")
    assert (rest, asks.name) == (b"the handshake", "inner")
    # As the page has it, so that others can write it too.
    nonce, name, own = hello[8:], answer[2:7], answer[7:39]
    content = b"rocketpipe HA 1\0leader\0" + nonce + own + name
    assert proof == hmac.digest(SECRET.reveal().encode(), content, hashlib.sha256)
    assert answers.receive(proof) == b""
    assert answers.is_done


def test_bytes_come_one_by_one() -> None:
    asks, answers = leader(SECRET), FollowerAnswers(INNER)
    to_leader, to_follower, rest = answers.hello(), b"", None
    while not answers.is_done:
        for byte in to_leader:
            sent, rest = asks.receive(bytes([byte]))
            to_follower += sent
        to_leader = b""
        for byte in to_follower:
            to_leader += answers.receive(bytes([byte]))
        to_follower = b""
    assert rest == b""


@pytest.mark.parametrize(
    "given",
    [
        Credentials("inner", Secret("not-the-secret")),
        Credentials("nobody", SECRET),
        Credentials("i" * 256, SECRET),
    ],
)
def test_who_knows_another_secret_or_is_unknown_is_not_let_in(given: Credentials) -> None:
    asks, answers = leader(SECRET), FollowerAnswers(given)
    hello, _ = asks.receive(answers.hello())
    with pytest.raises(NotProven, match="it is not User:"):
        asks.receive(answers.receive(hello))


def test_an_answer_is_good_for_one_question() -> None:
    answers = FollowerAnswers(INNER)
    hello, _ = leader(SECRET).receive(answers.hello())
    overheard = answers.receive(hello)
    again = leader(SECRET)
    again.receive(MAGIC)
    with pytest.raises(NotProven):
        again.receive(overheard)
    # Nor can a leader's own words be sent back to it.
    mirrored = leader(SECRET)
    first, _ = mirrored.receive(MAGIC)
    with pytest.raises(NotProven):
        mirrored.receive(b"\0\x05inner" + first[8:] + bytes(32))


def test_a_leader_that_does_not_know_it_is_not_followed() -> None:
    answers = FollowerAnswers(INNER)
    answers.receive(MAGIC + bytes(32))
    with pytest.raises(NotProven, match="does not know the secret"):
        answers.receive(bytes(32))
    other = FollowerAnswers(INNER)
    with pytest.raises(NotProven, match="asks for no proof"):
        other.receive(b"\0\0\0\1 a hello without a question")


def test_a_slave_of_apache_s_is_told_of_the_setting() -> None:
    with pytest.raises(NotProven, match="haAllowPlainFrom"):
        leader(SECRET).receive((4096).to_bytes(8, "big"))


@pytest.mark.parametrize("length", [0, 257, 0xFFFF])
def test_names_are_no_longer_than_they_may_be(length: int) -> None:
    asks = leader(SECRET)
    asks.receive(MAGIC)
    with pytest.raises(NotProven, match="a name of"):
        asks.receive(length.to_bytes(2, "big"))


def test_nonsense_is_refused_and_nothing_else_happens() -> None:
    chance = random.Random(7)
    for _ in range(2000):
        asks = leader(SECRET)
        try:
            for _ in range(4):
                begin = MAGIC if chance.random() < 0.5 else b""
                sent, rest = asks.receive(begin + chance.randbytes(chance.randrange(200)))
                assert rest is None
                assert len(sent) in (0, 40)
        except NotProven:
            pass
