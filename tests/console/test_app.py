"""The API of a console against real servers: every noun, looked at and changed."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.console.support.asking import ADDRESS, OURS, Asker, asking
from tests.console.support.shop import HOSTILE, Shop
from tests.ports import lasting_ports

from rocketpipe.console.app import ENDPOINTS, PREFIX, console_app
from rocketpipe.console.masking import Masks
from rocketpipe.health.http_port import Watched
from rocketpipe.model.ids import OffsetId

pytestmark = pytest.mark.scenario


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


async def pages(asker: Asker, path: str, **params: Any) -> list[dict[str, Any]]:
    """All rows of a list that is given in pages."""
    rows: list[dict[str, Any]] = []
    after: str | None = ""
    while after is not None:
        found = await asker.get(path, after=after, **params)
        rows += found["rows"]
        after = found["after"]
        assert found["complete"] is (after is None)
    return rows


# Looking


async def test_the_overview_has_figures_and_findings(asker: Asker) -> None:
    await asker.console.everybody.cluster.sample_once()
    await asker.get("overview")
    checking = asker.console.everybody.cluster._checking
    assert checking is not None
    await checking
    found = await asker.get("overview")
    assert found["brokers"] == {"value": 1}
    assert found["topics"]["value"] >= 3
    assert found["guarded"] is False
    assert found["in"]["value"] >= 0
    (dead,) = [each for each in found["findings"] if each["what"] == "dead letters of shop"]
    assert "rocketpipe dlq replay shop" in dead["remedy"]
    assert len(found["series"]["in"]["times"]) >= 1


async def test_topics_are_listed_by_name_and_figures_come_for_those_on_screen(
    asker: Asker,
) -> None:
    found = await asker.get("topics", q="ORD")
    assert [row["name"] for row in found["rows"]] == ["orders"]
    everything = await asker.get("topics", kind="all")
    assert "%DLQ%shop" in {row["name"] for row in everything["rows"]}
    (dead,) = (await asker.get("topics", kind="dead"))["rows"]
    assert dead == {"name": "%DLQ%shop"}
    two = await asker.get("topics", limit=2)
    assert (len(two["rows"]), two["complete"]) == (2, False)
    assert len(await pages(asker, "topics", limit=2)) == two["total"]
    figures = (await asker.get("topics/figures", names="orders,nobody"))["rows"]
    assert figures["orders"]["messages"] == {"value": 22}
    assert figures["orders"]["queues"] == 4
    assert figures["orders"]["groups"] == 3
    assert "no route" in figures["nobody"]["problem"]
    many = ",".join(f"t{number}" for number in range(51))
    assert "give 50" in (await asker.get("topics/figures", 400, names=many))["error"]["next"]


async def test_a_topic_shows_its_queues_settings_and_readers(asker: Asker) -> None:
    found = await asker.get("topics/orders")
    assert [row["queue"] for row in found["queues"]] == [0, 1, 2, 3]
    assert sum(row["messages"] for row in found["queues"]) == found["messages"]["value"] == 22
    assert found["settings"][0]["read_queues"] == 4
    assert (await asker.get("topics/orders/groups"))["rows"] == ["audit", "billing", "shop"]
    missing = await asker.get("topics/nobody", 404)
    assert missing["error"]["cause"]
    assert missing["error"]["next"]


async def test_messages_are_found_by_time_newest_first_and_in_pages(asker: Asker) -> None:
    rows = await pages(asker, "messages", topic="orders", limit=7)
    assert len({row["offset_id"] for row in rows}) == len(rows) == 22
    times = [row["stored_ms"] for row in rows]
    assert times == sorted(times, reverse=True)
    begin = times[10]
    late = await pages(asker, "messages", topic="orders", begin=begin, limit=50)
    assert {row["offset_id"] for row in late} == {
        row["offset_id"] for row in rows if row["stored_ms"] >= begin
    }
    early = await pages(asker, "messages", topic="orders", end=begin, limit=50)
    assert {row["offset_id"] for row in early} == {
        row["offset_id"] for row in rows if row["stored_ms"] <= begin
    }


async def test_messages_are_found_by_offset_key_and_id(asker: Asker) -> None:
    (found,) = (await asker.get("messages", topic="orders", **{"from": "key"}, key="A7"))["rows"]
    assert found["tags"] == "paid"
    place = {"broker": found["broker"], "queue": found["queue"], "offset": found["offset"]}
    rows = (await asker.get("messages", topic="orders", **{"from": "offset"}, **place))["rows"]
    assert rows[-1]["offset_id"] == found["offset_id"]
    for given in (found["id"], found["offset_id"]):
        (same,) = (await asker.get("messages", **{"from": "id"}, topic="orders", id=given))["rows"]
        assert same["offset_id"] == found["offset_id"]
    nothing = await asker.get("messages", **{"from": "id"}, topic="orders", id="nobody")
    assert nothing["rows"] == []
    assert (
        "is no offset id"
        in (await asker.get("messages", 400, **{"from": "id"}, id="nobody"))["error"]["cause"]
    )


async def test_messages_are_chosen_by_tags_sql_and_words(asker: Asker) -> None:
    by_tags = await pages(asker, "messages", topic="orders", tags="open")
    assert {row["tags"] for row in by_tags} == {"open"}
    by_sql = await pages(asker, "messages", topic="orders", sql="total > 17")
    assert {row["keys"][0] for row in by_sql} == {"A18", "A19"}
    by_word = await pages(asker, "messages", topic="orders", contains='"order": 12')
    assert [row["keys"] for row in by_word] == [["A12"]]
    for wrong in ({"sql": "total >"}, {"tags": "||"}, {"tags": "a", "sql": "b = 1"}):
        assert (await asker.get("messages", 400, topic="orders", **wrong))["error"]["cause"]


async def test_a_message_is_shown_whole_and_its_body_is_kept_as_a_file(asker: Asker) -> None:
    (row,) = (await asker.get("messages", topic="orders", **{"from": "key"}, key="BIN"))["rows"]
    found = await asker.get(f"messages/{row['offset_id']}")
    assert base64.b64decode(found["body"]) == bytes(range(256))
    assert found["cut"] is False
    kept = await asker.client.get(f"/api/1/messages/{row['offset_id']}/body")
    assert kept.content == bytes(range(256))
    assert kept.headers["content-disposition"].startswith("attachment;")
    assert kept.headers["content-type"] == "application/octet-stream"
    readers = {
        each["group"]: each["read"]
        for each in (await asker.get(f"messages/{row['offset_id']}/readers"))["rows"]
    }
    assert readers["audit"] is True
    assert readers["billing"] is False


async def test_no_id_makes_the_console_ask_another_address(asker: Asker) -> None:
    stranger = "C0A80001" + "00002A9F" + "0" * 16
    assert str(OffsetId.parse(stranger).host) == "192.168.0.1:10911"
    answer = await asker.get(f"messages/{stranger}", 404)
    assert "no broker of the cluster is at 192.168.0.1" in answer["error"]["cause"]


async def test_groups_have_lag_in_messages_and_seconds(asker: Asker) -> None:
    figures = (await asker.get("groups/figures", names="billing,audit"))["rows"]
    assert figures["billing"]["lag"]["value"] == 23
    assert figures["billing"]["lag_s"]["value"] > 0
    assert figures["audit"]["lag"] == figures["audit"]["lag_s"] == {"value": 0}
    assert figures["billing"]["members"] == {"value": 0}
    by_lag = (await asker.get("groups", sort="lag"))["rows"]
    assert by_lag[0]["name"] == "billing"
    online = await asker.get("groups", state="online")
    assert online["rows"] == []
    over = await asker.get("groups", lag_over=10**6)
    assert over["rows"] == []
    found = await asker.get("groups/billing")
    assert found["settings"][0]["consuming"] is True
    lag = await asker.get("groups/billing/lag")
    assert lag["lag"] == {"value": 23}
    assert {row["topic"] for row in lag["rows"]} == {"orders", "payments"}
    assert (await asker.get("groups/billing/members"))["rows"] == []
    assert (await asker.get("groups/nobody", 404))["error"]["next"]


async def test_dead_letters_are_paged_and_say_whether_they_were_replayed(asker: Asker) -> None:
    (group,) = (await asker.get("dlq"))["rows"]
    assert group == {"group": "shop", "letters": {"value": 5}}
    rows = await pages(asker, "dlq/shop", limit=2)
    assert len({row["offset_id"] for row in rows}) == 5
    assert {row["origin"] for row in rows} == {"orders"}


async def test_what_waits_is_listed(asker: Asker) -> None:
    (delayed,) = (await asker.get("waiting/timed"))["rows"]
    assert delayed["topic"] == "orders"
    (half,) = (await asker.get("waiting/transactions"))["rows"]
    assert (half["topic"], half["group"]) == ("payments", "tellers")


async def test_a_trace_is_steps_in_time_and_names_who_told_nothing(
    asker: Asker, shop: Shop
) -> None:
    (trace,) = (await asker.get("traces", id=shop.traced_id))["rows"]
    assert trace["topic"] == "payments"
    assert [step["kind"] for step in trace["steps"]] == ["sent"]
    assert trace["silent_groups"] == ["audit", "billing"]
    (same,) = (await asker.get("traces", key="P1"))["rows"]
    assert same["id"] == shop.traced_id
    assert (await asker.get("traces", id="nobody"))["rows"] == []


async def test_brokers_have_roles_and_settings_without_secrets(asker: Asker) -> None:
    (row,) = (await asker.get("brokers"))["rows"]
    assert (row["name"], row["role"]) == ("broker-a", "leader")
    facts = (await asker.get("brokers/broker-a"))["facts"]
    assert "putTps" in facts
    settings = (await asker.get("brokers/broker-a/settings", q="fileReserved"))["rows"]
    assert [each["key"] for each in settings] == ["fileReservedTime"]
    assert (await asker.get("brokers/nobody", 404))["error"]["cause"]


async def test_clients_are_listed_and_pipelines_only_where_some_were_named(asker: Asker) -> None:
    found = await asker.get("clients")
    assert (found["rows"], found["complete"]) == ([], True)
    assert (await asker.get("clients", kind="producer"))["complete"] is True
    assert (await asker.get("pipelines"))["configured"] is False
    assert (await asker.get("clients/one", 404, group="billing", id="x"))["error"]["cause"]


# Changing


async def test_topics_and_groups_are_made_changed_and_deleted(asker: Asker) -> None:
    await asker.log_in()
    topic, group = unique("topic"), unique("group")
    await asker.post("topics", {"name": topic, "queues": 3})
    again = await asker.post("topics", {"name": topic}, 409)
    assert "update it" in again["error"]["next"]
    change = {"write_queues": 2, "readable": True, "writable": True}
    assert await asker.post(f"topics/{topic}/settings", change, 400)
    await asker.post(f"topics/{topic}/settings", {**change, "confirm": topic})
    assert (await asker.get(f"topics/{topic}"))["settings"][0]["write_queues"] == 2
    await asker.post("groups", {"name": group})
    assert (await asker.get(f"groups/{group}"))["name"] == group
    assert await asker.post(f"groups/{group}/delete", {"confirm": "x"}, 400)
    await asker.post(f"groups/{group}/delete", {"confirm": group})
    assert await asker.post(f"topics/{topic}/delete", {"confirm": "x"}, 400)
    await asker.post(f"topics/{topic}/delete", {"confirm": topic})
    assert await asker.get(f"topics/{topic}", 404)
    changes = [row["what"] for row in (await asker.get("changes"))["rows"]]
    assert changes[:1] == [f"delete topic {topic}"]
    assert f"create topic {topic} with 3 queues" in changes


async def test_a_message_is_sent_with_all_that_it_may_have(asker: Asker) -> None:
    await asker.log_in()
    topic = unique("sent")
    await asker.post("topics", {"name": topic, "queues": 1})
    parts = {"tags": "t", "keys": ["k1", "k2"], "properties": {"colour": HOSTILE}}
    done = await asker.post("messages", {"topic": topic, "body": "Ünal", **parts})
    found = await asker.get(f"messages/{done['offset_id']}")
    assert base64.b64decode(found["body"]).decode() == "Ünal"
    assert found["properties"]["colour"] == HOSTILE
    raw = base64.b64encode(b"\x00\xff").decode()
    await asker.post("messages", {"topic": topic, "body": raw, "encoding": "base64"})
    assert await asker.post("messages", {"topic": topic, "body": "?", "encoding": "base64"}, 400)
    assert await asker.post("messages", {"topic": topic, "body": ""}, 400)
    assert await asker.post("messages", {"topic": topic, "body": "x", "cluster": "y"}, 400)
    later = await asker.post("messages", {"topic": topic, "body": "x", "delay_ms": 3_600_000})
    assert later["recall_handle"]
    cancel = {"topic": topic, "handle": later["recall_handle"]}
    assert (await asker.post("waiting/timed/cancel", cancel))["id"] == later["id"]


async def test_a_reset_is_shown_before_it_is_done_and_typed(asker: Asker) -> None:
    await asker.log_in()
    group = unique("moved")
    await asker.post("groups", {"name": group})
    wanted = {"topic": "orders", "to": "newest"}
    await asker.post(f"groups/{group}/reset", {**wanted, "preview": False}, 400)
    await asker.post(f"groups/{group}/reset", {**wanted, "preview": False, "confirm": group})
    plan = await asker.post(f"groups/{group}/reset", {"topic": "orders", "to": "oldest"})
    assert (plan["again"], plan["skipped"]) == (22, 0)
    assert (await asker.get(f"groups/{group}/lag"))["lag"] == {"value": 0}
    offset = {"topic": "orders", "to": "offset", "broker": "broker-a", "queue": 0, "offset": 2}
    await asker.post(f"groups/{group}/reset", {**offset, "preview": False, "confirm": group})
    rows = (await asker.get(f"groups/{group}/lag"))["rows"]
    assert [row["committed"] for row in rows if row["queue"] == 0] == [2]
    assert await asker.post(f"groups/{group}/reset", {"topic": "orders", "to": "time"}, 400)
    assert await asker.post(f"groups/{group}/reset", {"topic": "orders", "to": "yesterday"}, 400)


async def test_chosen_letters_are_replayed_once_and_each_says_what_became_of_it(
    asker: Asker,
) -> None:
    await asker.log_in()
    first, second, *_ = await pages(asker, "dlq/shop")
    (stranger,) = (await asker.get("messages", topic="orders", **{"from": "key"}, key="A1"))["rows"]
    ids = [first["offset_id"], "nobody", stranger["offset_id"], first["offset_id"]]
    done = await asker.post("dlq/shop/replay", {"ids": ids, "rate": 1000})
    assert [row["outcome"] for row in done["rows"]] == [
        "replayed",
        "failed",
        "failed",
        "replayed before",
    ]
    assert "no dead letter of shop" in done["rows"][2]["reason"]
    assert (done["replayed"], done["before"], done["failed"]) == (1, 1, 2)
    shown = {row["offset_id"]: row["replayed"] for row in await pages(asker, "dlq/shop")}
    assert shown[first["offset_id"]] is True
    assert shown[second["offset_id"]] is False
    assert await asker.post("dlq/shop/replay", {"ids": []}, 400)
    assert await asker.post("dlq/shop/replay", {"ids": ["x"] * 201}, 400)


async def test_a_setting_is_changed_while_the_broker_runs_but_no_secret(asker: Asker) -> None:
    await asker.log_in()
    key = "rejectTransactionMessage"
    for value in ("true", "false"):
        body = {"key": key, "value": value, "confirm": key}
        await asker.post("brokers/broker-a/settings", body)
        (row,) = (await asker.get("brokers/broker-a/settings", q=key))["rows"]
        assert row["value"] == value
    secret = {"key": "tls.server.keyPassword", "value": "x", "confirm": "tls.server.keyPassword"}
    assert await asker.post("brokers/broker-a/settings", secret, 403)
    refused = await asker.post(
        "brokers/broker-a/settings", {"key": "nobody", "value": "x", "confirm": "nobody"}, 422
    )
    assert refused["error"]["cause"]


# Who may


async def test_nothing_is_changed_by_who_has_not_proven_to_be_somebody(asker: Asker) -> None:
    """Every POST of the API but the login; so a new one is refused too."""
    posts = [each for each in ENDPOINTS if each.method == "POST"]
    assert {each.path for each in posts if not each.is_change} == {"/login", "/logout"}
    for endpoint in posts:
        if not endpoint.is_change:
            continue
        path = PREFIX + endpoint.path.format(
            topic="orders", group="billing", broker="broker-a", user="ana"
        )
        answer = await asker.client.post(path, json={}, headers=OURS)
        assert answer.status_code == 403, path
    assert (await asker.get("topics/orders"))["messages"] == {"value": 22}


async def test_get_changes_nothing(asker: Asker) -> None:
    """Every GET is asked by somebody who may change: what there is stays as it was."""
    await asker.log_in()

    async def state() -> object:
        topics = await asker.get("topics", kind="all")
        groups = await asker.get("groups")
        lag = await asker.get("groups/billing/lag")
        return topics["rows"], groups["rows"], [row["committed"] for row in lag["rows"]]

    before = await state()
    for endpoint in ENDPOINTS:
        if endpoint.method != "GET" or endpoint.path == "/live":
            continue
        path = PREFIX + endpoint.path.format(
            topic="orders", group="billing", broker="broker-a", id="x", user="ana"
        )
        answer = await asker.client.get(path, params={"names": "billing", "topic": "orders"})
        assert answer.status_code in (200, 400, 404), path
        for method in ("PUT", "DELETE", "PATCH"):
            assert (await asker.client.request(method, path)).status_code == 405
    assert await state() == before


async def test_bodies_can_be_kept_from_who_only_looks(shop: Shop) -> None:
    async with asking(shop.name_server, hide_bodies=True) as asker:
        (row,) = (await asker.get("messages", topic="orders", **{"from": "key"}, key="A3"))["rows"]
        assert row["preview"] is None
        found = await asker.get(f"messages/{row['offset_id']}")
        assert found["body"] is None
        assert await asker.get("messages", 403, topic="orders", contains="order")
        assert await asker.get(f"messages/{row['offset_id']}/body", 403)
        assert (await asker.get("dlq/shop"))["rows"][0]["preview"] is None
        await asker.log_in()
        assert (await asker.get(f"messages/{row['offset_id']}"))["body"]


async def test_masked_fields_are_seen_and_searched_by_nobody(shop: Shop) -> None:
    """Neither by a word in a body nor by a filter can a masked value be guessed."""
    async with asking(shop.name_server, masks=Masks(["who", "total"])) as asker:
        await asker.log_in()
        assert (await asker.get("console"))["masked"] == ["total", "who"]
        (row,) = (await asker.get("messages", topic="orders", **{"from": "key"}, key="A3"))["rows"]
        assert "王" not in row["preview"]
        assert '"order":3' in row["preview"]
        found = await asker.get(f"messages/{row['offset_id']}")
        assert found["masked"] is True
        assert json.loads(base64.b64decode(found["body"]))["who"] == "******"
        assert found["properties"]["total"] == "******"
        answer = await asker.client.get(f"/api/1/messages/{row['offset_id']}/body")
        assert "王" not in answer.text
        for guess in ({"contains": "王"}, {"sql": "total = 3"}, {"sql": "total LIKE '3%'"}):
            assert (await asker.get("messages", topic="orders", **guess))["rows"] == []
        (other,) = (await asker.get("messages", topic="orders", **{"from": "key"}, key="BIN"))[
            "rows"
        ]
        assert other["preview"] is None
        assert await asker.get(f"messages/{other['offset_id']}/body", 403)
        letters = (await asker.get("dlq/shop"))["rows"]
        assert not [row for row in letters if "王" in (row["preview"] or "")]


async def test_a_reset_that_would_skip_more_than_was_shown_is_not_done(asker: Asker) -> None:
    """Somebody else moved the group between the preview and the word."""
    await asker.log_in()
    group = unique("stale")
    await asker.post("groups", {"name": group})
    await asker.post(f"groups/{group}/reset", {"topic": "orders", "to": "newest", "preview": False,
                                               "confirm": group})  # fmt: skip
    where = {"broker": "broker-a", "queue": 0, "offset": 3}
    wanted = {"topic": "orders", "to": "offset", "may_skip": True, **where}
    shown = await asker.post(f"groups/{group}/reset", wanted)
    assert shown["skipped"] == 0
    oldest = {"topic": "orders", "to": "oldest", "preview": False, "confirm": group}
    await asker.post(f"groups/{group}/reset", oldest)
    word = {**wanted, "preview": False, "confirm": group, "seen_skipped": shown["skipped"]}
    refused = await asker.post(f"groups/{group}/reset", word, 409)
    assert "preview again" in refused["error"]["next"]
    await asker.post(f"groups/{group}/reset", {**word, "seen_skipped": 3})


async def test_settings_say_which_can_be_changed_now(asker: Asker) -> None:
    rows = (await asker.get("brokers/broker-a/settings"))["rows"]
    live = {row["key"]: row["live"] for row in rows}
    assert live["autoCreateTopicEnable"] is True
    assert live["brokerName"] is False
    await asker.log_in()
    change = {"key": "autoCreateTopicEnable", "value": "true", "confirm": "autoCreateTopicEnable"}
    await asker.post("brokers/broker-a/settings", change)
    change = {"key": "brokerName", "value": "x", "confirm": "brokerName"}
    await asker.post("brokers/broker-a/settings", change, 422)


async def test_a_cluster_that_is_not_there_is_an_answer_with_a_cause() -> None:
    (port,) = lasting_ports(1)
    async with asking(f"127.0.0.1:{port}") as asker:
        for path in ("topics", "groups", "brokers", "dlq"):
            answer = await asker.get(path, 502)
            assert answer["error"]["cause"]
            assert answer["error"]["next"]
        assert "unknown" in (await asker.get("overview"))["brokers"]


async def test_mounted_in_another_app_it_is_guarded_as_well(shop: Shop) -> None:
    async with asking(shop.name_server) as asker:
        outer = Starlette(routes=[Mount("/mq", console_app(asker.console, Watched()))])
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{ADDRESS}") as client:
            assert "<title>RocketPipe</title>" in (await client.get("/mq/")).text
            found = await client.get("/mq/api/1/topics", params={"q": "orders"})
            assert found.json()["total"] == 1
            other_site = {"Sec-Fetch-Site": "cross-site"}
            assert (await client.get("/mq/api/1/topics", headers=other_site)).status_code == 403
            assert (await client.post("/mq/api/1/topics", json={})).status_code == 403
            assert (await client.get("/mq/healthz")).text == "ok\n"
            stranger = {"Host": "evil.example"}
            assert (await client.get("/mq/", headers=stranger)).status_code == 421
