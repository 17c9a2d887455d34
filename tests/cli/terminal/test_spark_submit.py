"""The spark-submit that does what a command would do."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from rocketpipe.cli import submitted
from rocketpipe.cli.main import main, parser_of
from rocketpipe.cli.terminal.spark_submit import submit_command
from rocketpipe.errors import ConfigError


def submit(*words: str, **environment: str) -> list[str]:
    options = parser_of([words[0]]).parse_args([*words, "--print-submit"])
    line = submit_command([*words, "--print-submit"], options, environment)
    return shlex.split(line.replace("\\\n", ""))  # as a shell joins lines


def test_flags_about_spark_are_those_of_spark_submit_and_others_stay() -> None:
    words = submit(
        *("table", "follow", "orders", "--master", "spark://a:7077", "--to", "my lake"),
        *("--conf", "spark.cores.max=2", "--conf=spark.a=b c", "-n", "b:9876"),
    )
    assert words == [
        *("spark-submit", "--master", "spark://a:7077"),
        *("--conf", "spark.cores.max=2", "--conf", "spark.a=b c"),
        str(Path(submitted.__file__).resolve()),
        *("table", "follow", "orders", "--to", "my lake", "-n", "b:9876"),
    ]


@pytest.mark.parametrize(
    "noun", [("pipeline", "run"), ("job", "run", "audit"), ("sql", "SELECT 1")]
)
def test_the_environments_name_servers_go_along(noun: tuple[str, ...]) -> None:
    more = ("--to", "out") if noun[0] == "job" else ()
    assert submit(*noun, *more, ROCKETPIPE_NAMESRV="c:9876")[-2:] == ["--namesrv", "c:9876"]
    assert "--namesrv" not in submit(*noun, *more)


def test_a_secret_is_not_printed() -> None:
    with pytest.raises(ConfigError, match=r"fs\.s3a\.secret\.key is a secret") as caught:
        submit("sql", "SELECT 1", "--conf", "spark.hadoop.fs.s3a.secret.key=hidden")
    assert "hidden" not in str(caught.value)


def test_a_server_of_spark_connect_is_not_submitted_to() -> None:
    with pytest.raises(ConfigError, match="leave out --print-submit"):
        submit("sql", "SELECT 1", "--remote", "sc://a")


def test_nothing_is_done_but_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    to = tmp_path / "lake"
    assert main(["table", "follow", "orders", "--to", str(to), "--print-submit"]) == 0
    assert capsys.readouterr().out.startswith("spark-submit ")
    assert not to.exists()
