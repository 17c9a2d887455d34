from __future__ import annotations

import pytest
from tests.schema_registry import SchemaRegistry

from rocketpipe.blocking import Admin
from rocketpipe.errors import ConfigError
from rocketpipe.sql.catalogue import Catalogue, schemas_given
from rocketpipe.sql.errors import StatementFailed
from rocketpipe.sql.statements import Listing

pytestmark = pytest.mark.scenario


def test_topics_are_known_by_name_and_by_their_bodies(admin: Admin) -> None:
    catalogue = Catalogue(admin)
    assert catalogue.topic("MY-NOTES") == "my-notes"
    assert (catalogue.topic("orders"), catalogue.topic("Orders")) == ("orders", "Orders")
    assert catalogue.topic("ORDERS") is None
    assert catalogue.has_twin("orders")
    assert not catalogue.has_twin("my-notes")
    known = catalogue.bodies("orders")
    assert known is not None
    assert known.columns == ("city", "cents")
    assert catalogue.bodies("Orders") is None
    given = schemas_given(["orders=city STRING"])
    assert Catalogue(admin, given).bodies("orders") == given["orders"]


def test_what_no_broker_can_judge_is_told_when_it_is_used(admin: Admin) -> None:
    admin.topics.update("my-notes", attributes={"body.schema": "city TEXTILE"})
    with pytest.raises(StatementFailed, match=r"body\.schema of topic 'my-notes'.*--schema"):
        Catalogue(admin).bodies("my-notes")
    admin.topics.update("my-notes", attributes={"body.schema": "avro:/etc/passwd"})
    with pytest.raises(StatementFailed, match="a topic names no files"):
        Catalogue(admin).bodies("my-notes")
    schema = {"type": "record", "name": "N", "fields": [{"name": "text", "type": "string"}]}
    with SchemaRegistry() as registry:
        registry.register("notes", schema)
        admin.topics.update("my-notes", attributes={"body.schema": "avro:registry subject=notes"})
        with pytest.raises(StatementFailed, match="--registry URL"):
            Catalogue(admin).bodies("my-notes")
        found = Catalogue(admin, registry=registry.url).bodies("my-notes")
    assert found is not None
    assert (found.columns, found.insertable) == (("text",), "text string")
    admin.topics.update("my-notes", attributes={"body.schema": None})


def test_topics_that_come_later_are_found_by_the_next_statement(admin: Admin) -> None:
    catalogue = Catalogue(admin)
    assert catalogue.topic("late") is None
    admin.topics.create("late", queues=1)
    assert catalogue.topic("late") is None
    catalogue.forget()
    assert catalogue.topic("late") == "late"
    admin.topics.delete("late")


def test_tables_are_listed_without_rocketmqs_own(admin: Admin) -> None:
    catalogue = Catalogue(admin)
    listed = [row["table"] for row in catalogue.listed(Listing())]
    assert listed[:3] == ["Orders", "my-notes", "orders"]
    assert "rocketpipe.lag" in listed
    assert not any(name.startswith(("%", "RMQ_SYS")) for name in listed)
    assert [row["table"] for row in catalogue.listed(Listing(pattern="my*"))] == ["my-notes"]
    system = catalogue.listed(Listing(system_only=True))
    assert {row["kind"] for row in system} == {"system"}


def test_schemas_are_given_by_topic() -> None:
    found = schemas_given(["orders=city STRING, a DECIMAL(9,2)"])
    assert found["orders"].insertable == "city STRING, a DECIMAL(9,2)"
    for wrong in ("orders", "=a INT", "orders=", "orders=a TEXTILE", "orders=avro:none.avsc"):
        with pytest.raises(ConfigError, match="--schema"):
            schemas_given([wrong])
