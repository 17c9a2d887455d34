"""From what was said to settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketpipe.config.load import Choice, Given, given_in_environment, given_in_file
from rocketpipe.config.setting import setting, settings_of
from rocketpipe.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    name: str = setting("brokerName", default="a")
    port: int = setting("listenPort", default=1, least=0, most=65535)
    advertise: str | None = setting("brokerIP1", default=None)
    servers: tuple[str, ...] = setting("namesrvAddr", default=())
    size: int = setting("mappedFileSize", default=8, aliases=("mapedFileSize",))

    def __post_init__(self) -> None:
        if self.name == "bad":
            raise ValueError("no name for a broker")


SETTINGS = settings_of(Example)
KNOWN = {"haListenPort", "brokerRole"}


def chosen(*given: Given) -> Choice:
    return Choice(given, SETTINGS, KNOWN, heard={"brokerRole"})


def test_the_last_word_counts_and_is_remembered_with_its_origin(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("# mine\nbrokerName=file\nlistenPort=2\nmapedFileSize=5\n")
    environ = {"ROCKETPIPE_LISTEN_PORT": "3", "NAMESRV_ADDR": "x:1;y:2", "HOME": "/"}
    choice = chosen(
        *given_in_file(conf),
        *given_in_environment(environ, SETTINGS),
        Given("brokerName", "flag", "--name"),
    )
    built = choice.build(Example, **choice.values(SETTINGS))
    assert built == Example(name="flag", port=3, servers=("x:1", "y:2"), size=5)
    assert choice.origin("brokerName") == "--name"
    assert choice.origin("listenPort") == "ROCKETPIPE_LISTEN_PORT"
    assert choice.origin("namesrvAddr") == "NAMESRV_ADDR"
    assert choice.origin("mappedFileSize") == f"{conf} line 4"
    assert choice.origin("brokerIP1") == "default"
    assert choice.warnings() == []


def test_a_wrong_value_is_named_with_its_place_and_what_is_expected(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=a\nlistenPort=eighty\n")
    choice = chosen(*given_in_file(conf))
    with pytest.raises(ConfigError) as caught:
        choice.values(SETTINGS)
    assert str(caught.value) == (
        f"{conf} line 2: listenPort='eighty': a whole number from 0 to 65535 is expected"
    )


def test_values_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="no name for a broker"):
        chosen().build(Example, name="bad")


def test_an_unknown_key_is_named_with_the_nearest() -> None:
    (warning,) = chosen(Given("brokerNmae", "x", "f line 3")).warnings()
    assert warning == (
        "f line 3: brokerNmae is no setting and has no effect: did you mean brokerName?"
    )
    (warning,) = chosen(Given("zzz", "x", "f line 3")).warnings()
    assert warning == "f line 3: zzz is no setting and has no effect"


def test_an_unknown_variable_is_named_with_the_nearest() -> None:
    given = given_in_environment({"ROCKETPIPE_LISTEN_PROT": "1"}, SETTINGS)
    (warning,) = chosen(*given).warnings()
    assert warning.endswith("did you mean ROCKETPIPE_LISTEN_PORT?")


def test_keys_of_rocketmq_without_effect_are_named_in_one_line() -> None:
    choice = Choice(
        [Given("haListenPort", "1", "f"), Given("brokerRole", "x", "f")], SETTINGS, KNOWN
    )
    assert choice.warnings() == []
    assert choice.notes() == [
        "these keys are known but have no effect here: brokerRole, haListenPort"
    ]
    assert chosen(Given("brokerRole", "x", "f")).notes() == []
    idle = Choice([Given("port", "1", "f")], SETTINGS, KNOWN, idle={"listenPort"})
    assert idle.notes() == ["these keys are known but have no effect here: port"]


def test_a_key_that_stands_twice_in_a_file_is_reported(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=a\nbrokerName=b\n")
    choice = chosen(*given_in_file(conf), Given("brokerName", "c", "--name"))
    (warning,) = choice.warnings()
    assert warning == (
        f"{conf} line 2: brokerName is set for the second time, which counts "
        f"({conf} line 1 said 'a')"
    )


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("ROCKETPIPE_BROKER_IP1", "brokerIP1"),
        ("ROCKETPIPE_ADVERTISE", "brokerIP1"),
        ("ROCKETPIPE_PORT", "listenPort"),
        ("ROCKETPIPE_MAPED_FILE_SIZE", "mappedFileSize"),
    ],
)
def test_variables_are_keys_or_our_names_in_capitals(variable: str, key: str) -> None:
    assert given_in_environment({variable: "7"}, SETTINGS) == [Given(key, "7", variable)]


def test_an_empty_name_server_variable_and_other_variables_say_nothing() -> None:
    assert (
        given_in_environment(
            {"NAMESRV_ADDR": "", "ROCKETPIPE_PURE": "1", "ROCKETPIPE_NAMESRV": "a:1"}, SETTINGS
        )
        == []
    )
    assert given_in_environment({"NAMESRV_ADDR": "a:1"}, SETTINGS, name_servers=False) == []


def test_toml_has_the_same_keys_or_our_names_and_tables_by_server(tmp_path: Path) -> None:
    toml = tmp_path / "servers.toml"
    toml.write_text(
        'brokerName = "top"\nport = 5\n'
        "[broker]\nport = 6\nnamesrvAddr = ['a:1', 'b:2']\n"
        "[namesrv]\nlistenPort = 7\n"
    )
    choice = chosen(*given_in_file(toml, ("broker", "store")))
    assert choice.build(Example, **choice.values(SETTINGS)) == Example(
        name="top", port=6, servers=("a:1", "b:2")
    )
    assert choice.origin("listenPort") == f"{toml} [broker]"
    assert given_in_file(toml, ("namesrv",), outside=False) == [
        Given("listenPort", "7", f"{toml} [namesrv]")
    ]


def test_a_table_that_no_server_reads_is_named(tmp_path: Path) -> None:
    toml = tmp_path / "servers.toml"
    toml.write_text("[brokr]\nport = 6\n[namesrv]\nlistenPort = 7\n")
    (told,) = chosen(*given_in_file(toml, ("broker", "store"))).unknown()
    assert told == f"{toml}: [brokr] is no table and has no effect: did you mean [broker]?"
    assert given_in_file(toml, ("broker", "store"), outside=False) == []


def test_a_value_without_a_name_is_told_with_its_line(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("listenPort=1\n= 3\n")
    (told,) = chosen(*given_in_file(conf)).unknown()
    assert told == f"{conf} line 2: what has no name is no setting and has no effect"


def test_a_conf_file_has_no_tables(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("listenPort=1")
    assert given_in_file(conf, ("namesrv",), outside=False) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a = 1\nb = \n", "line 2"),
        (b"port = 1.5", "port: text, a whole number"),
        (b"broker = 3", r"broker is a table: write \[broker\]"),
        (b"a = '\xff'", "is not UTF-8"),
    ],
)
def test_toml_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    toml = tmp_path / "servers.toml"
    toml.write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        given_in_file(toml, ("broker",))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.conf: cannot be read \(No such file"):
        given_in_file(tmp_path / "none.conf")
