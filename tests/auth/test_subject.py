"""Users."""

from __future__ import annotations

import pytest

from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import MAX_NAME, User, UserType, check_user, user_of_subject
from rocketpipe.errors import InvalidName


@pytest.mark.parametrize("name", ["alice", "rocketmq2", "a.b-c@d_e", "x" * MAX_NAME])
def test_names_of_users(name: str) -> None:
    assert check_user(name) == name


@pytest.mark.parametrize("name", ["", " ", "a b", "a:b", "-x", "x" * (MAX_NAME + 1), "a\n", "ä"])
def test_what_is_no_name_of_a_user(name: str) -> None:
    with pytest.raises(InvalidName):
        check_user(name)


@pytest.mark.parametrize("subject", ["alice", "Role:x", "User:", "User:a b"])
def test_what_is_no_subject(subject: str) -> None:
    with pytest.raises(InvalidName):
        user_of_subject(subject)


def test_a_subject_is_its_users() -> None:
    assert user_of_subject("User:alice") == user_of_subject("user:alice") == "alice"


def test_a_secret_that_was_changed_is_good_for_a_while() -> None:
    user = User(name="a", secret=Secret("first-secret"), type=UserType.SUPER)
    turned = user.rotated(Secret("second-secret"), until_ms=1000)
    assert [each.reveal() for each in turned.secrets_at(999)] == ["second-secret", "first-secret"]
    assert [each.reveal() for each in turned.secrets_at(1000)] == ["second-secret"]
    assert turned.is_super
    assert "secret" not in repr(turned).replace("secret=", "")


def test_another_secret_may_leave_the_last_one_valid_for_a_while() -> None:
    user = User(name="alice", secret=Secret("first-secret-text"))
    turned = user.with_secret(Secret("other-secret-text"), 10)
    assert [each.reveal() for each in turned.secrets_at(9)] == [
        "other-secret-text",
        "first-secret-text",
    ]
    again = turned.with_secret(Secret("other-secret-text"), 20)
    assert [len(again.secrets_at(now)) for now in (19, 20)] == [2, 1]
    assert user.with_secret(user.secret, 10) == user, "no secret is its own predecessor"
    assert turned.with_secret(Secret("third-secret-text"), None).old is None
