"""What ``serve --secure`` makes, whatever it is killed over."""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.auth.config import INNER_USER, AuthConfig
from rocketpipe.auth.opening import open_tables
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.users import UserTable
from rocketpipe.cli.main import main
from rocketpipe.cli.serving import secure
from rocketpipe.cli.serving.secure import FIRST_USER, Secured, set_up
from rocketpipe.client.credentials import credentials_of
from rocketpipe.config.conf_file import read_conf
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.certificate import certificates_in
from rocketpipe.remoting.tls_settings import TlsConfig, TlsSettings
from rocketpipe.store.files.disk import Disk

HOSTS = ["127.0.0.1"]


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_at(number: int) -> Iterator[list[str]]:
    """End it in the place of the rename of this number; gives those that were done."""
    os_replace, os_rename = os.replace, os.rename
    done: list[str] = []

    def counted(real: Any) -> Any:
        def renamed(source: Any, target: Any, **more: Any) -> None:
            if len(done) == number:
                raise Killed
            done.append(Path(target).name)
            real(source, target, **more)

        return renamed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", counted(os_replace))
        patch.setattr(os, "rename", counted(os_rename))
        yield done


def made(data: Path, *hosts: str) -> Secured:
    return set_up(data, AuthConfig(), None, hosts or HOSTS)


def users(data: Path) -> UserTable:
    table, _ = open_tables(Disk(), data / "config")
    return table


def check_whole(data: Path, secured: Secured) -> None:
    """Whatever a server and a client need is there, and fits together."""
    secured.tell_clients("127.0.0.1:9876")
    text = secured.client_env.read_text()
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    told = dict(line[0].split("=", 1) for line in lines if line)
    credentials = credentials_of(environment=told)
    settings = TlsSettings.of(None, told)
    assert credentials is not None
    assert settings is not None
    known = users(data).get(FIRST_USER)
    assert known is not None
    assert known.is_super
    assert credentials.secret == known.secret
    place = data / "secure"
    ssl.create_default_context(cafile=str(settings.ca_file))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
        place / "server.pem", place / "server-key.pem"
    )
    (ca,) = certificates_in((place / "ca.pem").read_bytes())
    (server,) = certificates_in((place / "server.pem").read_bytes())
    assert server.issuer == ca.subject
    conf = {one.key: one.value for one in read_conf(secured.conf.read_bytes(), "conf")}
    inner = json.loads(Path(conf["innerClientAuthenticationCredentialsFile"]).read_text())
    assert inner["accessKey"] == INNER_USER
    for each in [*place.iterdir(), secured.client_env]:
        public = each.suffix == ".pem" and "key" not in each.name
        assert each.stat().st_mode & 0o777 == (0o644 if public else 0o600), each
        assert not each.name.startswith(".")
    assert place.stat().st_mode & 0o777 == 0o700


def test_it_starts_right_whatever_it_was_killed_over(tmp_path: Path) -> None:
    number = 0
    while True:
        data = tmp_path / str(number)
        with killed_at(number) as done:
            try:
                made(data).tell_clients("127.0.0.1:9876")
                break
            except Killed:
                pass
        check_whole(data, made(data))
        number += 1
    assert {"ca-key.pem", "ca.pem", "server.pem", "admin.key", "users.json"} <= {*done}
    assert done[-1] == "client.env"
    assert number == len(done) >= 9


def test_a_second_start_uses_what_is_there(tmp_path: Path) -> None:
    check_whole(tmp_path, made(tmp_path))
    # What says where things are is written each time; the rest is not touched.
    files = [
        each
        for each in (*(tmp_path / "secure").iterdir(), tmp_path / "config" / "users.json")
        if each.name != "server.conf"
    ]
    before = {each: (each.read_bytes(), each.stat().st_ino) for each in files}
    check_whole(tmp_path, made(tmp_path))
    assert before == {each: (each.read_bytes(), each.stat().st_ino) for each in files}


def test_another_name_and_a_near_end_make_a_new_certificate_of_the_same_ca(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check_whole(tmp_path, made(tmp_path))
    ca = (tmp_path / "secure" / "ca.pem").read_bytes()
    check_whole(tmp_path, made(tmp_path, "broker-1.example", "10.0.0.5"))
    check_whole(tmp_path, made(tmp_path, "10.0.0.6"))
    (found,) = certificates_in((tmp_path / "secure" / "server.pem").read_bytes())
    assert {"broker-1.example", "10.0.0.5", "10.0.0.6", "127.0.0.1"} <= {*found.names}
    assert "it is for 10.0.0.6 too" in caplog.text
    Authority.opened(tmp_path / "secure").server(found.names, days=20)
    check_whole(tmp_path, made(tmp_path))
    (renewed,) = certificates_in((tmp_path / "secure" / "server.pem").read_bytes())
    assert renewed.not_after_s > found.not_after_s - 86_400
    assert {*renewed.names} == {*found.names}
    assert "near its end" in caplog.text
    assert (tmp_path / "secure" / "ca.pem").read_bytes() == ca


def test_any_address_is_that_of_the_machine_in_the_certificate(tmp_path: Path) -> None:
    secured = made(tmp_path, "0.0.0.0")
    (found,) = certificates_in((tmp_path / "secure" / "server.pem").read_bytes())
    host, _, _ = secured.reached_at("0.0.0.0:9876").rpartition(":")
    assert host != "0.0.0.0"
    assert found.is_for(host)
    assert not found.is_for("0.0.0.0")


def test_who_was_removed_does_not_come_back_by_an_old_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = made(tmp_path)
    secret = first.key.read_text()
    table = users(tmp_path)
    admin = table.get(FIRST_USER)
    assert admin is not None
    table.put(replace(admin, name="root"))
    table.remove(FIRST_USER)
    again = made(tmp_path)
    assert again.user is None
    assert users(tmp_path).get(FIRST_USER) is None
    again.tell_clients("127.0.0.1:9876")
    assert "ACCESS_KEY" not in again.client_env.read_text()
    assert "--secret" not in " ".join(again.next_steps())
    # Nobody is left who may do everything: there is a way in, and another one.
    table.remove("root")
    check_whole(tmp_path, made(tmp_path))
    assert first.key.read_text() != secret
    # A secret that was changed elsewhere is not known here.
    known = users(tmp_path).get(FIRST_USER)
    assert known is not None
    users(tmp_path).put(replace(known, secret=Secret("changed-elsewhere")))
    with caplog.at_level(logging.WARNING):
        assert made(tmp_path).user == FIRST_USER
    assert "has not the secret of admin:" in caplog.text
    assert "changed-elsewhere" not in caplog.text


def test_users_of_a_backup_know_the_servers_of_a_new_place(tmp_path: Path) -> None:
    first = made(tmp_path)
    shutil.rmtree(first.place)
    again = made(tmp_path)
    inner = json.loads((again.place / "inner.json").read_text())
    known = users(tmp_path).get(INNER_USER)
    assert known is not None
    assert known.secret == Secret(inner["secretKey"])


def test_what_the_user_has_is_used(tmp_path: Path) -> None:
    authority = Authority.opened(tmp_path / "certs")
    pair = authority.server(["broker.example"])
    told = TlsConfig(tls_cert=pair.cert, tls_key=pair.key, tls_ca=authority.ca_file)
    inner = '{"accessKey":"own","secretKey":"a-secret-of-my-own"}'
    secured = set_up(tmp_path, AuthConfig(inner_credentials=inner), told, HOSTS)
    assert secured.ca == authority.ca_file
    assert not (tmp_path / "secure" / "ca.pem").exists()
    assert not (tmp_path / "secure" / "inner.json").exists()
    assert "certPath" not in secured.conf.read_text()


def test_nothing_that_is_shown_has_a_secret_in_it(tmp_path: Path) -> None:
    secured = made(tmp_path)
    secured.tell_clients("127.0.0.1:9876")
    shown = repr(secured) + secured.client_env.read_text() + secured.conf.read_text()
    shown += repr(secured.facts()) + repr(secured.examples("127.0.0.1:9876"))
    for file in ("admin.key", "http.token"):
        assert (tmp_path / "secure" / file).read_text().strip() not in shown
    assert json.loads((tmp_path / "secure" / "inner.json").read_text())["secretKey"] not in shown


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (["--insecure"], "say the opposite"),
        (["--tls-mode", "permissive"], "tls.server.mode says otherwise"),
        (["-c", "open.conf"], "authorizationEnabled says otherwise"),
    ],
)
def test_what_opens_it_again_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], told: list[str], said: str
) -> None:
    (tmp_path / "open.conf").write_text("authorizationEnabled=false\n")
    told = [str(tmp_path / each) if each == "open.conf" else each for each in told]
    assert main(["serve", secure.FLAG, "--data", str(tmp_path / "data"), *told]) == 2
    assert said in capsys.readouterr().err


def test_nobody_else_writes_where_users_and_keys_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = os.umask(0)
    try:
        made(tmp_path / "new")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert not caplog.messages
    (tmp_path / "new").chmod(0o777)
    made(tmp_path / "new")
    assert "others may write" in caplog.text
    planted = tmp_path / "planted" / "secure"
    planted.mkdir(parents=True)
    planted.chmod(0o777)
    with pytest.raises(ConfigError, match="others may write"):
        made(tmp_path / "planted")
