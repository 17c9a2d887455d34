"""``rocketpipe broker``, up to where it would serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.loading import broker_settings
from rocketpipe.cli.main import main
from rocketpipe.cli.serving.broker import IMPORTANT, boot_line
from rocketpipe.config.conf_file import read_conf

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


def printed(capsys: Capture, *arguments: str) -> dict[str, str]:
    assert main(["broker", *arguments]) == 0
    return {one.key: one.value for one in read_conf(capsys.readouterr().out.encode(), "printed")}


def test_flags_count_more_than_the_environment_and_that_more_than_the_file(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=file\nlistenPort=1\nnamesrvAddr=f:1\nregionId=file\n")
    monkeypatch.setenv("NAMESRV_ADDR", "e:1")
    monkeypatch.setenv("ROCKETPIPE_BROKER_NAME", "environment")
    items = printed(capsys, "-p", "-c", str(conf), "--port", "2", "--flush", "sync")
    assert items["brokerName"] == "environment"
    assert items["namesrvAddr"] == "e:1"
    assert items["listenPort"] == "2"
    assert items["regionId"] == "file"
    assert items["flushDiskType"] == "SYNC_FLUSH"
    assert printed(capsys, "-p", "-c", str(conf), "-n", "f:2")["namesrvAddr"] == "f:2"


def test_what_is_printed_says_where_it_comes_from(tmp_path: Path, capsys: Capture) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("\nbrokerName=b\n")
    assert main(["broker", "--print-config", "-c", str(conf)]) == 0
    assert f"# {conf} line 2\nbrokerName=b\n" in capsys.readouterr().out


def test_important_settings_are_fewer(capsys: Capture) -> None:
    assert printed(capsys, "-m").keys() == IMPORTANT
    assert printed(capsys, "-p").keys() == {one.key for one in broker_settings()}


def test_a_broker_alone_is_for_production_unless_it_is_told_otherwise(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    prod = printed(capsys, "-p")
    assert prod["profile"] == "prod"
    assert prod["autoCreateTopicEnable"] == prod["autoCreateSubscriptionGroup"] == "false"
    assert prod["mappedFileSizeCommitLog"] == str(1 << 30)
    dev = printed(capsys, "-p", "--profile", "dev")
    assert dev["autoCreateTopicEnable"] == dev["autoCreateSubscriptionGroup"] == "true"
    assert dev["mappedFileSizeCommitLog"] == str(64 << 20)
    toml = tmp_path / "b.toml"
    toml.write_text('profile = "dev"\n')
    assert printed(capsys, "-p", "-c", str(toml))["autoCreateTopicEnable"] == "true"
    monkeypatch.setenv("ROCKETPIPE_PROFILE", "prod")
    assert printed(capsys, "-p", "-c", str(toml))["autoCreateTopicEnable"] == "false"
    assert printed(capsys, "-p", "--profile", "dev")["autoCreateTopicEnable"] == "true"


def test_rocketmqs_file_counts_more_than_toml_in_whichever_order_they_come(
    tmp_path: Path, capsys: Capture
) -> None:
    toml, conf = tmp_path / "b.toml", tmp_path / "b.conf"
    toml.write_text('brokerName = "of-toml"\nregionId = "of-toml"\n')
    conf.write_text("brokerName=of-conf\n")
    for files in ((toml, conf), (conf, toml)):
        items = printed(capsys, "-p", *(word for file in files for word in ("-c", str(file))))
        assert items["brokerName"] == "of-conf"
        assert items["regionId"] == "of-toml"


@pytest.mark.parametrize("where", ["flag", "file"])
def test_an_address_that_others_can_reach_needs_a_word_of_consent(
    tmp_path: Path, capsys: Capture, where: str
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("bindAddress=0.0.0.0\n" if where == "file" else "")
    flags = ["--bind", "0.0.0.0"] if where == "flag" else []
    assert main(["broker", "-c", str(conf), "--data", str(tmp_path), *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"rocketpipe broker: {'--bind' if flags else conf}")
    assert "there is no access control" in error
    assert "--insecure" in error


def test_a_wrong_value_ends_with_its_line(tmp_path: Path, capsys: Capture) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=a\nlistenPort=many\n")
    assert main(["broker", "-c", str(conf)]) == 2
    assert capsys.readouterr().err == (
        f"rocketpipe broker: {conf} line 2: listenPort='many': "
        "a whole number from 0 to 65535 is expected\n"
    )


def test_the_boot_line_is_rocketmqs() -> None:
    config = BrokerConfig(data=Path("x"), name_servers=("127.0.0.1:9876",), advertise="10.0.0.1")
    assert boot_line(config, "127.0.0.1:10911") == (
        "The broker[broker-a, 10.0.0.1:10911] boot success. serializeType=JSON "
        "and name server is 127.0.0.1:9876"
    )
    assert boot_line(BrokerConfig(data=Path("x")), "127.0.0.1:1") == (
        "The broker[broker-a, 127.0.0.1:1] boot success. serializeType=JSON"
    )


def test_flags_say_who_a_broker_is_among_those_of_its_name(capsys: Capture) -> None:
    flags = ["--name", "broker-b", "--role", "slave", "--id", "2", "--ha-port", "7"]
    items = printed(capsys, "-p", *flags)
    assert [items[key] for key in ("brokerName", "brokerRole", "brokerId", "haListenPort")] == [
        "broker-b",
        "SLAVE",
        "2",
        "7",
    ]
    assert printed(capsys, "-p", "--role", "sync-master")["brokerRole"] == "SYNC_MASTER"
    elected = printed(capsys, "-m", "--zookeeper", "a:1,b:2")
    assert elected["zookeeperAddr"] == "a:1;b:2"


def test_a_slave_that_cannot_find_its_master_does_not_start(
    tmp_path: Path, capsys: Capture
) -> None:
    assert main(["broker", "--role", "slave", "--id", "1", "--data", str(tmp_path / "d")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("rocketpipe broker: --role: a slave without a NameServer")
    assert "haMasterAddress" in error
    assert not (tmp_path / "d").exists()
