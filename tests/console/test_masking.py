"""What is left out of bodies and properties."""

from __future__ import annotations

import json

import pytest

from rocketpipe.console.masking import MASK, MAX_MASKED, Masks

MASKS = Masks(["email", "Card"])


def masked(value: object) -> object:
    found = MASKS.body(json.dumps(value).encode())
    assert found is not None
    return json.loads(found)


def test_a_field_is_known_by_its_name_wherever_it_is() -> None:
    told = {"id": 7, "EMAIL": "a@b", "card": {"no": 1}, "rows": [{"email": ["x"]}, "email"]}
    kept = {"id": 7, "EMAIL": MASK, "card": MASK, "rows": [{"email": MASK}, "email"]}
    assert masked(told) == kept


def test_json_within_a_text_is_looked_through_as_well() -> None:
    told = {"payload": json.dumps({"email": "a@b", "n": 1}), "note": "[x] no email: a@b"}
    found = masked(told)
    assert isinstance(found, dict)
    assert json.loads(found["payload"]) == {"email": MASK, "n": 1}
    assert found["note"] == MASK
    assert masked({"note": "[x] nothing"}) == {"note": "[x] nothing"}


def test_a_name_that_is_written_with_escapes_is_the_same_name() -> None:
    assert MASKS.body(b'{"\\u0065mail": "a@b", "email ": "a@b"}').count(b"a@b") == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "body",
    [b"email=a@b", b"\xff\xfe", b'{"email": "a@b"', b"[" * 5000, b"[" * 100 + b"]" * 100,
     b'"' + b"x" * MAX_MASKED + b'"'],
    ids=["text", "binary", "torn", "deep", "nested", "long"],
)  # fmt: skip
def test_what_cannot_be_told_apart_is_not_shown(body: bytes) -> None:
    assert MASKS.body(body) is None


def test_properties_are_masked_by_their_names() -> None:
    given = {"email": "a@b", "total": "3", "raw": '{"card": 1}'}
    assert MASKS.properties(given) == {"email": MASK, "total": "3", "raw": f'{{"card":"{MASK}"}}'}


def test_without_names_everything_is_as_it_was() -> None:
    nothing = Masks()
    assert not nothing
    assert nothing.body(b"\xff") == b"\xff"
    assert MASKS.body(b"") == b""
    with pytest.raises(ValueError, match="characters"):
        Masks(["  "])
