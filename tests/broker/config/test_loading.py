"""From a broker.conf to a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.config.config import NOT_READ_YET, BrokerConfig
from rocketpipe.broker.config.loading import (
    STORE_SETTINGS,
    LoadedBroker,
    broker_settings,
    load_broker,
)
from rocketpipe.broker.config.replica_settings import REPLICATION_SETTINGS
from rocketpipe.config.known_keys import BROKER_KEYS
from rocketpipe.config.load import Given, given_in_file
from rocketpipe.config.setting import settings_of
from rocketpipe.errors import ConfigError
from rocketpipe.store.config import FlushMode, StoreConfig

#: RocketMQ's keys have its names; these are ours, for what it does not have.
OUR_OWN = {
    "aclAllowWhiteList",
    "auditLogMaxBytes",
    "auditLogMaxFiles",
    "auditLogPath",
    "haAllowPlainFrom",
    "plainAclFile",
    "initAuthenticationUserFile",
    "innerClientAuthenticationCredentialsFile",
    "profile",
    "maxSuspendMillis",
    "maxConnections",
    "maxUnsentBytes",
    "maxUnfinishedBytes",
    "verifyReads",
    "indexTags",
    "maxOpenFiles",
    "onDamage",
    "onDamagedLog",
    "maxQuarantineBytes",
    "enableTopicMessageTypeCheck",
    "maxStagedBytes",
    "stagedExpiry",
    "stagedLedgerTime",
    "maxOpenTransactions",
    "maxWaitingTimers",
    "fastPortEnable",
    "offsetCommit",
    "exitOnStoreFailure",
    "zookeeperAddr",
    "zookeeperSessionTimeout",
    "tls.server.keyPasswordFile",
    "haRetainForFollowers",
    "haAllowPlain",
}

SAMPLE = """
# as passed on from one installation to the next
brokerClusterName = DefaultCluster
brokerName = broker-b
brokerId = 0
namesrvAddr = 10.0.0.1:9876;10.0.0.2:9876
brokerIP1 = 10.0.0.5
listenPort = 10921
defaultTopicQueueNums = 4
autoCreateTopicEnable = false
deleteWhen = 04
fileReservedTime = 48
mapedFileSizeCommitLog = 1073741824
mapedFileSizeConsumeQueue = 300000
diskMaxUsedSpaceRatio = 88
storePathRootDir = {root}
storePathCommitLog = {root}/commitlog
storePathConsumeQueue = {root}/consumequeue
maxMessageSize = 65536
brokerRole = ASYNC_MASTER
flushDiskType = SYNC_FLUSH
sendMessageThreadPoolNums = 128
"""


def loaded(root: Path, *more: tuple[str, str]) -> LoadedBroker:
    given = [Given("storePathRootDir", str(root), "--data")]
    return load_broker([*given, *(Given(key, text, f"f {key}") for key, text in more)])


def test_a_file_of_rocketmq_is_taken_as_it_is(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(SAMPLE.format(root=tmp_path))
    result = load_broker(given_in_file(conf))
    config = result.config
    assert (config.name, config.port, config.advertise) == ("broker-b", 10921, "10.0.0.5")
    assert config.name_servers == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert (config.default_topic_queues, config.auto_create_topics) == (4, False)
    assert (config.data, config.max_message_bytes) == (tmp_path, 65536)
    store = config.store
    assert store is not None
    assert (store.root, store.flush, store.reserved_hours) == (tmp_path, FlushMode.SYNC, 48)
    assert (store.segment_bytes, store.queue_file_bytes) == (1 << 30, 300_000)
    ratio, address = result.choice.warnings()
    assert "diskMaxUsedSpaceRatio=88: 85 counts" in ratio
    assert "brokerIP1=10.0.0.5: clients are told so, but only this machine" in address
    assert result.choice.notes() == [
        "these keys are known but have no effect here: "
        + ("brokerIP1, " if "advertise" in NOT_READ_YET else "")
        + "sendMessageThreadPoolNums, storePathConsumeQueue"
    ]


def test_what_is_not_said_is_as_the_classes_have_it(tmp_path: Path) -> None:
    assert loaded(tmp_path, ("profile", "prod")).config == BrokerConfig(
        data=tmp_path,
        store=StoreConfig(root=tmp_path),
        name_servers=(),
        profile="prod",
        auto_create_topics=False,
        auto_create_groups=False,
    )


def test_without_a_directory_the_data_is_where_rocketmq_has_it() -> None:
    assert load_broker([]).config.data == Path.home() / "store"


def test_a_disk_that_is_emptied_by_force_before_it_is_tidied_is_tidied_then(tmp_path: Path) -> None:
    store = loaded(tmp_path, ("diskMaxUsedSpaceRatio", "88")).config.store
    assert store is not None
    assert (store.used_ratio, store.force_ratio) == (85, 85)


def test_the_size_of_queue_files_is_rounded_up_to_entries(tmp_path: Path) -> None:
    store = loaded(tmp_path, ("mappedFileSizeConsumeQueue", "101")).config.store
    assert store is not None
    assert store.queue_file_bytes == 120


@pytest.mark.parametrize(
    ("key", "text", "counts"),
    [
        ("diskMaxUsedSpaceRatio", "88", "85 counts"),
        ("mappedFileSizeConsumeQueue", "1001", "rounded up to 1020"),
        ("registerNameServerPeriod", "5s", "10000 counts"),
        ("registerNameServerPeriod", "5m", "60000 counts"),
        ("maxMessageSize", "100m", "67108864 bytes"),
        ("mappedFileSizeCommitLog", "32m", "have 16 bytes"),
        ("brokerIP1", "10.0.0.5", "only this machine reaches it, at 127.0.0.1"),
    ],
)
def test_a_value_that_is_not_kept_is_warned_of(
    tmp_path: Path, key: str, text: str, counts: str
) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / "00000000000000000000").write_bytes(bytes(16))
    (warning,) = loaded(tmp_path, (key, text)).choice.warnings()
    assert f"{key}={text}" in warning
    assert counts in warning


def test_an_address_that_clients_reach_is_not_warned_of(tmp_path: Path) -> None:
    for given in (
        (("brokerIP1", "10.0.0.5"), ("bindAddress", "0.0.0.0")),
        (("brokerIP1", "127.0.0.1:20911"),),
        (("brokerIP1", "localhost"),),
    ):
        assert loaded(tmp_path, *given).choice.warnings() == []


def test_the_oldest_files_go_before_sends_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="diskSpaceWarningLevelRatio be no less than"):
        loaded(tmp_path, ("diskSpaceCleanForciblyRatio", "95"))


@pytest.mark.parametrize("key", ["aclEnable", "enableControllerMode"])
def test_what_is_so_here_is_no_key_without_effect(tmp_path: Path, key: str) -> None:
    kept = loaded(tmp_path, (key, "false"), ("timerWheelEnable", "true"))
    assert kept.choice.notes() == kept.choice.warnings() == []
    other = loaded(tmp_path, ("timerWheelEnable", "false"))
    assert other.choice.notes() == [
        "these keys are known but have no effect here: timerWheelEnable"
    ]


def test_delay_levels_reach_broker_and_store(tmp_path: Path) -> None:
    config = loaded(tmp_path, ("messageDelayLevel", "1s 1s 2s")).config
    assert config.store is not None
    assert config.delay_levels == config.store.delay_levels == "1s 1s 2s"


def test_the_longest_timer_is_said_in_seconds(tmp_path: Path) -> None:
    store = loaded(tmp_path, ("timerMaxDelaySec", "60")).config.store
    assert store is not None
    assert store.timer_max_delay_ms == 60_000


def test_small_files_are_a_weaker_word_than_a_size(tmp_path: Path) -> None:
    given = [
        Given("storePathRootDir", str(tmp_path), "f"),
        Given("mappedFileSizeCommitLog", "1m", "f"),
    ]
    store = load_broker(given, small_files=True).config.store
    assert store == StoreConfig.embedded(tmp_path, segment_bytes=1 << 20)


def test_a_profile_is_a_weaker_word_than_any_other(tmp_path: Path) -> None:
    assert loaded(tmp_path).config.auto_create_topics
    prod = loaded(tmp_path, ("profile", "prod"))
    assert not prod.config.auto_create_topics
    assert prod.choice.origin("autoCreateTopicEnable") == "profile prod"
    assert loaded(
        tmp_path, ("profile", "prod"), ("autoCreateTopicEnable", "true")
    ).config.auto_create_topics
    by_command = load_broker([Given("storePathRootDir", str(tmp_path), "f")], profile="prod")
    assert by_command.config.profile == "prod"
    assert by_command.choice.origin("profile") == "default"
    given = [Given("profile", "dev", "f"), Given("storePathRootDir", str(tmp_path), "f")]
    assert load_broker(given, profile="prod").config.auto_create_topics


def test_production_has_rocketmqs_sizes_and_states_what_it_promises(tmp_path: Path) -> None:
    prod = loaded(tmp_path, ("profile", "prod"))
    assert prod.config.store == StoreConfig(root=tmp_path)
    for key in ("flushDiskType", "fileReservedTime", "deleteWhen", "mappedFileSizeCommitLog"):
        assert prod.choice.origin(key) == "profile prod"
    assert not prod.config.auto_create_groups


@pytest.mark.parametrize(
    ("key", "text", "instead"),
    [
        ("authorizationEnabled", "true", "authenticationEnabled"),
        ("authenticationProvider", "com.example.Own", "DefaultAuthenticationProvider"),
        ("authorizationStrategy", "Own", "StatelessAuthorizationStrategy"),
        ("authenticationWhitelist", "105,25", "only 105"),
        ("enableDLegerCommitLog", "true", "zookeeperAddr"),
        ("enableControllerMode", "true", "zookeeperAddr"),
        ("duplicationEnable", "true", "set it to false"),
        ("storeType", "defaultRocksDB", "set it to default"),
        ("storePathCommitLog", "/elsewhere/commitlog", "make that directory a link"),
        ("brokerIP1", "10.0.0.1:x", "HOST or HOST:PORT"),
        ("brokerIP1", "two words", "HOST or HOST:PORT"),
    ],
)
def test_what_this_broker_cannot_keep_is_refused(
    tmp_path: Path, key: str, text: str, instead: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, (key, text))
    assert str(caught.value).startswith(f"f {key}: {key}={text!r}: ")
    assert instead in str(caught.value)


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("namesrvAddr", "10.0.0.1", "f namesrvAddr: namesrvAddr='10.0.0.1': '10.0.0.1' is not"),
        ("namesrvAddr", "http://a:9876", "'http://a:9876' is not host:port"),
        ("namesrvAddr", "a:9876,b:9876", "'a:9876,b:9876' is not host:port"),
        ("zookeeperAddr", "zk", "f zookeeperAddr: zookeeperAddr='zk': 'zk' is not host:port"),
        ("brokerName", "", "f brokerName: brokerName='': broker '': is not made of"),
        ("messageDelayLevel", "1s 5x", "messageDelayLevel='1s 5x': '5x' is no delay"),
        ("messageDelayLevel", "", "there is no level"),
        ("deleteWhen", "25", "deleteWhen='25': '25' is no hour of the day: 00 to 23"),
        ("diskSpaceWarningLevelRatio", "50", "be no less than"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(
    tmp_path: Path, key: str, text: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        loaded(tmp_path, (key, text))


def test_every_setting_is_listed_with_its_value_and_origin(tmp_path: Path) -> None:
    rows = {key: (text, origin) for key, text, origin in loaded(tmp_path).items()}
    assert rows["storePathRootDir"] == (str(tmp_path), "--data")
    assert rows["mappedFileSizeCommitLog"] == (str(64 << 20), "profile dev")
    assert rows["fileReservedTime"] == ("72", "default")
    assert rows["timerMaxDelaySec"] == ("259200", "default")
    assert rows.keys() == {one.key for one in broker_settings()}


def test_what_is_listed_makes_the_same_broker_again(tmp_path: Path) -> None:
    first = loaded(tmp_path, ("brokerName", "b"), ("timerMaxDelaySec", ""), ("profile", "prod"))
    again = load_broker([Given(key, text, origin) for key, text, origin in first.items()])
    assert again.config == first.config


def test_keys_are_rocketmqs_unless_it_has_none() -> None:
    keys = {one.key for one in broker_settings()}
    assert keys - BROKER_KEYS == OUR_OWN


def test_one_key_sets_one_thing() -> None:
    for settings in ((*settings_of(BrokerConfig), *REPLICATION_SETTINGS), STORE_SETTINGS):
        names = [name for one in settings for name in {*one.names}]
        assert len(names) == len(set(names))


def test_secrets_are_listed_as_stars(tmp_path: Path) -> None:
    said = '{"accessKey":"inner","secretKey":"inner-secret-text"}'
    rows = loaded(
        tmp_path,
        ("authenticationEnabled", "true"),
        ("innerClientAuthenticationCredentials", said),
        ("initAuthenticationUser", '{"username":"a","password":"a-secret-text"}'),
        ("authenticationProvider", "org.apache.rocketmq.auth.DefaultAuthenticationProvider"),
    ).items()
    assert "secret-text" not in str(rows)
    assert ("innerClientAuthenticationCredentials", "******") in {row[:2] for row in rows}


def test_accounts_are_looked_for_beside_the_file_that_wants_them(tmp_path: Path) -> None:
    conf, accounts = tmp_path / "broker.conf", tmp_path / "plain_acl.yml"
    conf.write_text("aclEnable=true\n")
    assert load_broker(given_in_file(conf)).config.plain_acl_file is None
    accounts.write_text("")
    assert load_broker(given_in_file(conf)).config.plain_acl_file == accounts
    other = Given("plainAclFile", "elsewhere.yml", "--flag")
    assert load_broker([*given_in_file(conf), other]).config.plain_acl_file == Path("elsewhere.yml")
    said = Given("aclEnable", "true", "ROCKETPIPE_ACL_ENABLE")
    assert load_broker([said]).config.plain_acl_file is None
    with pytest.raises(ConfigError, match="is read with aclEnable=true only"):
        load_broker([other])
