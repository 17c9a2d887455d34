"""The verbs are there under their original names, from either command."""

from __future__ import annotations

import argparse
import sys

import pytest

from rocketpipe.cli.main import main as whole
from rocketpipe.cli.mqadmin import command

#: The ones that operators type most.
MOST_USED = {
    *("clusterList", "topicList", "topicRoute", "topicStatus", "updateTopic", "deleteTopic"),
    *("updateTopicPerm", "topicClusterList", "updateSubGroup", "deleteSubGroup"),
    *("consumerProgress", "consumerConnection", "producerConnection", "resetOffsetByTime"),
    *("skipAccumulatedMessage", "cloneGroupOffset", "queryMsgById", "queryMsgByKey"),
    *("queryMsgByOffset", "queryMsgByUniqueKey", "sendMessage", "printMsg", "brokerStatus"),
    *("getBrokerConfig", "updateBrokerConfig", "wipeWritePerm", "addWritePerm"),
    *("updateKvConfig", "deleteKvConfig"),
    *("getNamesrvConfig", "updateNamesrvConfig", "updateOrderConf", "producer"),
    *("getConsumerConfig", "cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"),
    *("haStatus", "getBrokerEpoch", "getSyncStateSet", "electMaster"),
    *("createUser", "updateUser", "deleteUser", "getUser", "listUser", "copyUser"),
    *("createAcl", "updateAcl", "deleteAcl", "getAcl", "listAcl", "copyAcl"),
    *("updateAclConfig", "deleteAclConfig", "clusterAclConfigVersion", "updateGlobalWhiteAddr"),
}


def test_the_most_used_verbs_are_known_each_with_its_help() -> None:
    parser = argparse.ArgumentParser(prog="rocketpipe mqadmin")
    command.add_arguments(parser)
    (verbs,) = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    assert set(verbs.choices) == MOST_USED
    for name, verb in verbs.choices.items():
        assert "--namesrvAddr" in verb.format_help(), name


def test_the_command_of_its_own_is_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["rocketpipe-mqadmin", "topicList", "-n", "127.0.0.1:1"])
    assert command.main() == 1
    assert capsys.readouterr().err.startswith("rocketpipe mqadmin topicList: ")


def test_a_verb_that_is_none_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        whole(["mqadmin", "topicLists"])
    assert caught.value.code == 2
    assert "topicList" in capsys.readouterr().err
