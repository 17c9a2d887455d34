"""What each request needs."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.auth.any_request import any_request
from tests.auth.conftest import granting, make_gate

import rocketpipe.protocol.requests
from rocketpipe.auth.gate import Principal
from rocketpipe.auth.needs import NEEDS, Surroundings, is_own_retry, unlisted, wants
from rocketpipe.errors import RequestRejected
from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.request import Request
from rocketpipe.protocol.requests import (
    callbacks,
    clients,
    lookups,
    popping,
    pulling,
    routes,
    running,
    sending,
    staging,
    transactions,
)

#: What a broker asks of its clients: nobody asks it of a server.
_OF_CLIENTS = {
    callbacks.NotifyConsumerIdsChanged,
    callbacks.CheckTransactionState,
    callbacks.PushReplyMessage,
    callbacks.ResetConsumerClientOffset,
    running.GetClientOffsets,
}
_EVERYBODY = {"UnregisterClient"}
_WRITER = {
    *("SendMessage", "SendReply", "RecallMessage", "StageMessages", "CommitStages"),
    *("PrepareStages", "AskStages", "SettleStages", "GetRouteInfoByTopic"),
}
_READER = {
    *("SendMessageBack", "PullMessage", "PopMessage", "PeekMessage", "AckMessage"),
    *("BatchAckMessage", "ChangeInvisibleTime", "Notification", "PollingInfo", "QueryMessage"),
    *("Heartbeat", "GetConsumerListByGroup", "CheckClientConfig", "LockBatch", "UnlockBatch"),
    *("QueryAssignment", "QueryConsumerOffset", "UpdateConsumerOffset"),
    *("SearchOffsetByTimestamp", "GetMaxOffset", "GetMinOffset", "GetEarliestStoreTime"),
    *("ConsumeDirectly", "GetRouteInfoByTopic"),
}


def all_requests() -> set[type[Request[Any]]]:
    found = set()
    for module in pkgutil.iter_modules(rocketpipe.protocol.requests.__path__):
        for value in vars(
            importlib.import_module(f"rocketpipe.protocol.requests.{module.name}")
        ).values():
            if isinstance(value, type) and issubclass(value, Request) and hasattr(value, "codes"):
                found.add(value)
    return found


def texts(asked: Request[Any], around: Surroundings | None = None) -> set[str]:
    found = wants(asked, around or Surroundings(cluster="c"))
    return {f"{each} {'|'.join(sorted(action.value for action in each.actions))}" for each in found}


def test_every_request_that_a_server_may_answer_is_in_the_table() -> None:
    assert set(unlisted(all_requests())) == _OF_CLIENTS


@pytest.mark.parametrize("who", ["nobody", "reader", "writer", "operator", "root"])
def test_who_may_ask_what(who: str) -> None:
    gate = make_gate()
    by = Principal(who, who == "root", "10.0.0.7:1", "10.0.0.7")
    allowed = set()
    for kind in NEEDS:
        try:
            gate.allow(by, any_request(kind))
        except RequestRejected:
            continue
        allowed.add(kind.__name__)
    everything = {kind.__name__ for kind in NEEDS}
    assert (
        allowed
        == {
            "nobody": _EVERYBODY,
            "reader": _EVERYBODY | _READER,
            "writer": _EVERYBODY | _WRITER,
            "operator": everything,
            "root": everything,
        }[who]
    )


def pull(topic: str, group: str = "g") -> pulling.PullMessage:
    asked = any_request(pulling.PullMessage, topic)
    assert isinstance(asked, pulling.PullMessage)
    return replace(asked, consumer_group=group)


def test_a_groups_own_retry_topic_needs_the_group_alone() -> None:
    assert texts(pull("%RETRY%g")) == texts(pull("%RETRY%g+t")) == {"Group:g Sub"}


def test_another_groups_retry_topic_needs_that_group_too() -> None:
    assert texts(pull("%RETRY%h")) == {"Group:g Sub", "Group:h Sub"}
    # The first form of the pop names may be the retry topic of a group called g_t.
    assert texts(pull("%RETRY%g_t")) == {"Group:g Sub", "Group:g_t Sub"}
    assert texts(pull("%DLQ%h")) == {"Group:g Sub", "Group:h Sub"}
    assert not is_own_retry("%RETRY%g_t", "g")


def test_a_send_to_a_retry_topic_counts_as_the_group_that_it_names() -> None:
    asked = any_request(sending.SendMessage, "%RETRY%g2")
    assert texts(asked) == {"Group:g2 Sub"}
    assert texts(any_request(sending.SendMessage, "RMQ_SYS_TRACE_TOPIC")) == set()


@pytest.mark.parametrize(
    "topic", ["rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_c", "SCHEDULE_TOPIC_XXXX"]
)
def test_where_brokers_keep_messages_of_all_topics_is_the_clusters(topic: str) -> None:
    assert texts(any_request(sending.SendMessage, topic)) == {"Cluster:c Update"}
    assert texts(pull(topic)) == {"Group:g Sub", "Cluster:c Get"}
    assert texts(routes.GetRouteInfoByTopic(topic=topic)) == {"Cluster:c Get|Update"}


def test_routes_that_everybody_needs() -> None:
    assert texts(routes.GetRouteInfoByTopic(topic="TBW102")) == set()
    assert texts(routes.GetRouteInfoByTopic(topic="%RETRY%g")) == {"Group:g Get|Sub"}
    assert texts(routes.GetRouteInfoByTopic(topic="t")) == {"Topic:t Get|Pub|Sub"}


def test_a_heartbeat_needs_all_that_it_subscribes_to() -> None:
    data = clients.HeartbeatData(
        client_id="x",
        producers=(clients.ProducerData(group_name="pg"),),
        consumers=(
            clients.ConsumerData(
                group_name="g",
                subscriptions=(
                    Subscription(topic="t1", expression="*"),
                    Subscription(topic="secret", expression="*"),
                    Subscription(topic="%RETRY%g", expression="*"),
                ),
            ),
            clients.ConsumerData(group_name="h"),
        ),
    )
    assert texts(clients.Heartbeat(data=data)) == {
        "Group:g Sub",
        "Topic:t1 Sub",
        "Topic:secret Sub",
        "Group:h Sub",
    }


def test_a_batch_of_acknowledgements_needs_each_of_its_topics() -> None:
    asked = any_request(popping.BatchAckMessage)
    assert isinstance(asked, popping.BatchAckMessage)
    (ack,) = asked.batch.acks

    other = msgspec.structs.replace(ack, topic="secret")
    batch = msgspec.structs.replace(asked.batch, acks=(ack, other))
    assert texts(replace(asked, batch=batch)) == {
        "Group:readers Sub",
        "Topic:orders Sub",
        "Topic:secret Sub",
    }


def test_a_message_counts_as_the_topic_it_is_of_whatever_is_said() -> None:
    around = Surroundings(cluster="c", topic_at={7: "secret"}.get)
    view = lookups.ViewMessageById(offset=7, topic="orders")
    assert texts(view, around) == {"Topic:secret Get|Sub", "Topic:orders Get|Sub"}
    assert texts(replace(view, topic=None), around) == {"Topic:secret Get|Sub"}
    assert texts(replace(view, topic=None, offset=8), around) == {"Cluster:c Get|Sub"}
    end = any_request(transactions.EndTransaction)
    assert isinstance(end, transactions.EndTransaction)
    assert texts(replace(end, commit_log_offset=7, topic="orders"), around) == {
        "Topic:secret Pub",
        "Topic:orders Pub",
    }
    back = any_request(sending.SendMessageBack)
    assert isinstance(back, sending.SendMessageBack)
    assert texts(replace(back, offset=7, group="g"), around) == {"Group:g Sub", "Topic:secret Sub"}


def test_whether_sends_can_be_staged_may_be_asked_by_everybody() -> None:
    asked = any_request(staging.CommitStages)
    assert isinstance(asked, staging.CommitStages)
    assert texts(asked) == {"Group:app Pub"}
    assert texts(replace(asked, batch=-1)) == set()


def test_a_receipt_from_a_pop_of_the_first_form_is_its_groups() -> None:
    asked = any_request(popping.AckMessage, "%RETRY%readers_orders")
    assert texts(asked) == {"Group:readers Sub", "Topic:orders Sub"}


def test_a_prefix_grants_what_begins_so() -> None:
    gate = make_gate()
    gate.policies.put(granting("nobody", Topic="ord*:Pub"))
    by = Principal("nobody", False, "10.0.0.7:1", "10.0.0.7")
    gate.allow(by, any_request(sending.SendMessage))
    with pytest.raises(RequestRejected):
        gate.allow(by, any_request(sending.SendMessage, "or"))
