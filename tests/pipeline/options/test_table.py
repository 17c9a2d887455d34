"""Options of tables, which Spark hands over once and oddly."""

from __future__ import annotations

import pytest

from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.table import given, is_of_table
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.options.write import WriteOptions

MADE = {  # as Spark 4.3 asks for the columns of a table that is being made
    "subscribe": "orders",
    "option.subscribe": "orders",
    "nameserver": "a:1",
    "option.nameserver": "a:1",
    "owner": "root",
    "provider": "rocketpipe",
    "colour": "of TBLPROPERTIES",
}


def test_what_spark_adds_for_a_table_is_no_option() -> None:
    assert given(MADE) == {"subscribe": "orders", "nameserver": "a:1"}
    assert ReadOptions.parse(MADE).selection.topics == ("orders",)
    assert given({"provider": "rocketpipe", "location": "x", "path": "/srv"}) == {"path": "/srv"}
    writing = {"option.topic": "t", "topic": "t", "option.nameserver": "a:1", "provider": "x"}
    assert WriteOptions.parse(writing).topic == "t"


def test_what_is_no_table_keeps_every_option() -> None:
    plain = {"Subscribe": " orders ", "owner": "me"}
    assert not is_of_table(plain)
    assert given(plain) == {"subscribe": "orders", "owner": "me"}
    with pytest.raises(OptionError, match="'owner' is unknown"):
        ReadOptions.parse(plain)


def test_where_nothing_was_given_the_error_speaks_of_tables() -> None:
    for parse in (ReadOptions.parse, WriteOptions.parse):
        with pytest.raises(OptionError, match=r"'nameServer' is missing.* WITH \("):
            parse({})


def test_a_table_takes_no_secret() -> None:
    made = {"provider": "rocketpipe", "secretKey": "s-e-c", "option.secretKey": "s-e-c"}
    with pytest.raises(OptionError, match="is not for a table") as error:
        given(made)
    assert "s-e-c" not in str(error.value)
