"""How each broker of a directory is started."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.cli.main import parser_of
from rocketpipe.cli.serving.fleet.commands import Commands
from rocketpipe.errors import ConfigError
from rocketpipe.store import roster
from rocketpipe.store.roster import MemberState

BROKERS = roster.begun("broker-a", taken=True).grown(3)
FIRST, SECOND, THIRD = BROKERS.brokers


def options(*words: str) -> argparse.Namespace:
    return parser_of(["serve"]).parse_args(["serve", *words])


def commands(config: BrokerConfig, *words: str) -> Commands:
    return Commands(options(*words), config, BROKERS, log_level="info")


def said(made: Commands, member: roster.Member = SECOND) -> argparse.Namespace:
    """What a broker is told, as it understands it."""
    _, _, module, *words = made.of(member, "127.0.0.1:9876")
    assert module == "rocketpipe.cli.main"
    return parser_of(["broker"]).parse_args(words)


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig(data=tmp_path, profile="prod")


def test_each_has_its_name_its_directory_and_its_port(config: BrokerConfig) -> None:
    made = commands(config, "-c", "a.conf", "-c", "b.toml", "--flush", "sync", "--small-files")
    told = said(made)
    assert (told.name, told.data) == ("broker-a-1", str(config.data / "broker-a-1"))
    assert (told.bind, told.port, told.namesrvAddr) == ("127.0.0.1", "10921", "127.0.0.1:9876")
    assert (told.profile, told.flush, told.small_files) == ("prod", "sync", True)
    assert told.config == [Path("a.conf"), Path("b.toml")]
    assert (told.insecure, told.http, told.advertise) == (False, None, None)
    assert told.supervised
    assert not told.no_fast_port
    assert said(made, FIRST).port == "10911"
    assert said(made, FIRST).data == str(config.data)
    assert made.address(THIRD) == "127.0.0.1:10931"


def test_one_that_has_left_leaves_its_port(config: BrokerConfig) -> None:
    left = BROKERS.without("broker-a-1")
    made = Commands(options(), config, left, log_level="info")
    assert made.address(THIRD) == "127.0.0.1:10931"


def test_ports_that_are_left_to_us_stay_the_same(config: BrokerConfig) -> None:
    made = commands(replace(config, port=0))
    ports = [said(made, member).port for member in BROKERS.brokers]
    assert len(set(ports)) == 3
    assert [said(made, member).port for member in BROKERS.brokers] == ports
    assert said(made).no_fast_port, "two below may be another's"
    made.another_port(SECOND)
    assert said(made).port not in ports
    assert said(made, FIRST).port == ports[0]


def test_a_port_that_was_given_is_not_changed(config: BrokerConfig) -> None:
    made = commands(config)
    made.another_port(SECOND)
    assert said(made).port == "10921"


def test_there_have_to_be_so_many_ports(config: BrokerConfig) -> None:
    commands(replace(config, port=65_515))
    with pytest.raises(ConfigError, match="broker-a-2 would listen on port 65536"):
        commands(replace(config, port=65_516))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("example.org", "example.org:10921"),
        ("example.org:30911", "example.org:30921"),
        ("192.0.2.7", "192.0.2.7:10921"),
        ("[2001:db8::1]:30911", "[2001:db8::1]:30921"),
        ("2001:db8::1", "[2001:db8::1]:10921"),
    ],
)
def test_clients_are_told_where_each_is(config: BrokerConfig, given: str, told: str) -> None:
    assert said(commands(replace(config, advertise=given))).advertise == told


def test_each_has_a_port_for_those_who_watch_if_there_is_one_of_all(config: BrokerConfig) -> None:
    told = said(commands(config, "--http", "0.0.0.0:8080", "--insecure"))
    assert told.http == ("127.0.0.1", 0)
    assert told.insecure


def test_one_that_is_being_drained_starts_as_it_was(config: BrokerConfig) -> None:
    made = commands(config)
    assert said(made).state is None
    assert said(made, replace(SECOND, state=MemberState.CLOSED)).state == "closed"


def test_all_have_the_same_users_and_each_an_audit_of_its_own(config: BrokerConfig) -> None:
    told = said(commands(config))
    assert (told.auth_directory, told.audit_log) == (None, None)
    guarded = replace(config, authentication=True, audit_file=Path("/var/log/audit.log"))
    made = commands(guarded, "--http", "127.0.0.1:0", "--http-token-file", "a.token")
    users = str(config.data / "config")
    for member in BROKERS.brokers:
        told = said(made, member)
        assert told.auth_directory == users
        assert told.audit_log == f"/var/log/audit-{member.name}.log"
        assert told.http_token_file == Path("a.token")
    elsewhere = replace(guarded, auth_directory=Path("/etc/users"))
    assert said(commands(elsewhere)).auth_directory == "/etc/users"
