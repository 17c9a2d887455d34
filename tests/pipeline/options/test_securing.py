"""How readers and writers connect."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rocketpipe.auth.secret import Secret
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.securing import Access, tls_of
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.options.write import WriteOptions
from rocketpipe.remoting.tls_settings import TlsSettings

WHERE = {"nameServer": "a:1", "subscribe": "orders"}


@pytest.fixture
def ca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        *("TLS", "CA_FILE", "CERT_FILE", "KEY_FILE", "TLS_VERIFY"),
        *("ACCESS_KEY", "SECRET_KEY", "SECRET_KEY_FILE"),
    ):
        monkeypatch.delenv(f"ROCKETPIPE_{name}", raising=False)
    (tmp_path / "ca.pem").write_text("")
    return tmp_path / "ca.pem"


def test_options_say_it_to_readers_and_writers(ca: Path) -> None:
    said = {"tls": "true", "caFile": str(ca)}
    meant = TlsSettings(ca_file=str(ca))
    read = ReadOptions.parse({**WHERE, **said})
    assert read.access.tls == meant
    assert WriteOptions.parse({"nameServer": "a:1", **said}).access.tls == meant
    assert pickle.loads(pickle.dumps(read)).access.tls == meant
    assert ReadOptions.parse(WHERE).access == Access()
    assert tls_of({"cafile": str(ca)}) == meant


def test_the_environment_of_the_driver_says_it_else(
    ca: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETPIPE_TLS", "true")
    monkeypatch.setenv("ROCKETPIPE_CA_FILE", "/c")
    assert tls_of({}) == TlsSettings(ca_file="/c")
    assert tls_of({"cafile": str(ca)}) == TlsSettings(ca_file=str(ca))
    assert tls_of({"tls": "false"}) is None
    monkeypatch.setenv("ROCKETPIPE_TLS", "perhaps")
    with pytest.raises(OptionError, match="'tls' is left to ROCKETPIPE_TLS: 'perhaps'"):
        tls_of({})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tls": "maybe"}, "'tls' is 'maybe': choose one of true, false"),
        ({"cafile": "/none/ca.pem"}, "'caFile' names '/none/ca.pem', and there is no such file"),
    ],
)
def test_what_has_no_sense_is_named(ca: Path, given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        tls_of(given)


def test_half_a_pair_and_files_without_tls_are_refused(ca: Path) -> None:
    with pytest.raises(OptionError, match="belong together"):
        tls_of({"certfile": str(ca)})
    with pytest.raises(OptionError, match="is false, and files for it are named"):
        tls_of({"tls": "false", "cafile": str(ca)})


def test_a_user_and_where_its_secret_is(ca: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ca.with_name("app.key")
    file.write_text("a-secret-in-a-file\n")
    monkeypatch.setenv("APP_SECRET", "a-secret-in-a-variable")
    for said, secret in (
        ({"secretKeyFile": str(file)}, "a-secret-in-a-file"),
        ({"secretKeyEnv": "APP_SECRET"}, "a-secret-in-a-variable"),
        ({"secretKey": "a-secret-as-such"}, "a-secret-as-such"),
    ):
        options = {**WHERE, "accessKey": "app", **said}
        read = ReadOptions.parse(options)
        assert (
            read.access
            == WriteOptions.parse(
                {name: text for name, text in options.items() if name != "subscribe"}
            ).access
        )
        travelled = pickle.dumps(read)
        # A file's and a variable's is read where tasks run: it does not travel.
        assert (secret.encode() in travelled) == ("secretKey" in said)
        assert secret not in f"{read!r}{read}"
        session = pickle.loads(travelled).access.session("a:1")
        assert session.credentials is not None
        assert session.credentials.access_key == "app"
        assert session.credentials.secret == Secret(secret)


def test_the_environment_says_who_it_is_else(ca: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETPIPE_ACCESS_KEY", "app")
    monkeypatch.setenv("ROCKETPIPE_SECRET_KEY_FILE", str(ca))
    assert Access.of({}) == Access(access_key="app", secret_key_file=str(ca))
    monkeypatch.setenv("ROCKETPIPE_SECRET_KEY", "a-secret-in-a-variable")
    assert Access.of({}) == Access(access_key="app", secret_key_env="ROCKETPIPE_SECRET_KEY")
    assert Access.of({"accesskey": "other", "secretkey": "x" * 16}) == Access(
        access_key="other", secret_key=Secret("x" * 16)
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"accesskey": "app"}, "'accessKey' is 'app', and there is no secret: add 'secretKeyFile'"),
        ({"secretkey": "x-secret"}, "'accessKey' is missing, and there is a secret"),
        (
            {"accesskey": "app", "secretkey": "x-secret", "secretkeyenv": "X"},
            "'secretKey' is given, and 'secretKeyEnv' too",
        ),
        ({"accesskey": "app", "secretkeyfile": "/none/x"}, "and there is no such file here"),
        ({"accesskey": "", "secretkey": "x-secret"}, "'accessKey' is empty"),
        ({"accesskey": "app", "secretkey": "******"}, "stands for a secret and is none"),
    ],
)
def test_half_a_user_is_refused(ca: Path, given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as error:
        Access.of(given)
    assert said in str(error.value)
    assert "x-secret" not in str(error.value)


def test_a_secret_that_is_not_where_the_task_runs_is_missed_by_name(ca: Path) -> None:
    with pytest.raises(OptionError, match="'NO_SUCH', which is not set where this task runs"):
        Access(access_key="app", secret_key_env="NO_SUCH").session("a:1")
    with pytest.raises(OptionError, match=r"ca\.pem has no secret in its first line"):
        Access(access_key="app", secret_key_file=str(ca)).session("a:1")
