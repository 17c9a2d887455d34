"""How readers and writers connect."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.securing import tls_of
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.options.write import WriteOptions
from rocketpipe.remoting.tls_settings import TlsSettings

WHERE = {"nameServer": "a:1", "subscribe": "orders"}


@pytest.fixture
def ca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TLS", "CA_FILE", "CERT_FILE", "KEY_FILE", "TLS_VERIFY"):
        monkeypatch.delenv(f"ROCKETPIPE_{name}", raising=False)
    (tmp_path / "ca.pem").write_text("")
    return tmp_path / "ca.pem"


def test_options_say_it_to_readers_and_writers(ca: Path) -> None:
    said = {"tls": "true", "caFile": str(ca)}
    meant = TlsSettings(ca_file=str(ca))
    read = ReadOptions.parse({**WHERE, **said})
    assert read.tls == meant
    assert WriteOptions.parse({"nameServer": "a:1", **said}).tls == meant
    assert pickle.loads(pickle.dumps(read)).tls == meant
    assert ReadOptions.parse(WHERE).tls is None
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
