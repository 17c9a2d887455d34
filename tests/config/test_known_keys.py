"""RocketMQ's own keys."""

from __future__ import annotations

import re

import pytest

from rocketpipe.config.known_keys import BROKER_KEYS, NAMESRV_KEYS, ORPHANED_KEYS


@pytest.mark.parametrize("keys", [BROKER_KEYS, NAMESRV_KEYS, ORPHANED_KEYS])
def test_they_are_names_of_settings(keys: frozenset[str]) -> None:
    assert all(re.fullmatch(r"[a-z][A-Za-z0-9]+|tls(\.[a-z][A-Za-z]*)+", key) for key in keys)


def test_those_of_rocketmqs_sample_files_are_among_them() -> None:
    assert {
        "brokerClusterName",
        "brokerName",
        "brokerId",
        "deleteWhen",
        "fileReservedTime",
        "brokerRole",
        "flushDiskType",
        "listenPort",
        "haListenPort",
        "storePathRootDir",
        "storePathCommitLog",
        "enableDLegerCommitLog",
        "dLegerPeers",
    } <= BROKER_KEYS
    assert {"listenPort", "kvConfigPath", "enableControllerInNamesrv"} <= NAMESRV_KEYS


def test_no_key_is_both_read_and_orphaned() -> None:
    assert not ORPHANED_KEYS & BROKER_KEYS
