"""``rocketpipe namesrv``, up to where it would serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.cli.main import main
from rocketpipe.cli.serving.namesrv import boot_line, load_namesrv
from rocketpipe.config.load import Given
from rocketpipe.config.setting import settings_of
from rocketpipe.errors import ConfigError
from rocketpipe.namesrv.config import NamesrvConfig


def test_it_is_told_by_file_and_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text("listenPort=1\nkvConfigPath=/kv.json\n")
    assert main(["namesrv", "-c", str(conf), "-p", "2", "--print-config"]) == 0
    printed = capsys.readouterr().out
    assert "# --port\nlistenPort=2\n" in printed
    assert f"# {conf} line 2\nkvConfigPath=/kv.json\n" in printed
    assert printed.count("=") >= len(settings_of(NamesrvConfig))


def test_without_a_word_it_is_as_its_class_has_it() -> None:
    config, choice = load_namesrv([])
    assert config == NamesrvConfig()
    assert choice.warnings() == []


def test_keys_of_rocketmq_that_it_does_not_use_are_named() -> None:
    _, choice = load_namesrv(
        [Given("rocketmqHome", "x", "f line 1"), Given("listenProt", "1", "f line 2")]
    )
    assert choice.warnings() == [
        "f line 2: listenProt is no setting and has no effect: did you mean listenPort?"
    ]
    assert choice.notes() == ["these keys are known but have no effect here: rocketmqHome"]


def test_a_wrong_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="f line 1: listenPort='x'"):
        load_namesrv([Given("listenPort", "x", "f line 1")])


def test_an_address_that_others_can_reach_needs_a_word_of_consent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["namesrv", "--bind", "0.0.0.0"]) == 2
    assert "--bind: 0.0.0.0 can be reached from other machines" in capsys.readouterr().err


def test_what_is_no_port_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["namesrv", "-p", "70000"])
    assert ended.value.code == 2
    assert "'70000' is no port" in capsys.readouterr().err


def test_the_boot_line_is_rocketmqs() -> None:
    assert boot_line("0.0.0.0:9876") == (
        "The Name Server boot success. serializeType=JSON, address 0.0.0.0:9876"
    )
