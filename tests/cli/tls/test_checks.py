"""What a doctor makes of TLS."""

from __future__ import annotations

import time
from pathlib import Path

from tests.remoting.tls_rooms import answering, server_tls

from rocketpipe.cli.tls import checks
from rocketpipe.cli.tls.probe import Met
from rocketpipe.client.admin.findings import Level
from rocketpipe.remoting.authority import Authority
from rocketpipe.remoting.certificate import Certificate
from rocketpipe.remoting.tls_settings import TlsSettings

DAY = 86_400


def test_a_key_is_its_owners_alone(authority: Authority, tmp_path: Path) -> None:
    pair = authority.client("checked")
    assert checks.key_file(pair.key).level is Level.OK
    pair.key.chmod(0o640)
    found = checks.key_file(pair.key)
    assert (found.level, found.remedy) == (Level.PROBLEM, f"chmod 600 {pair.key}")
    assert "mode 640" in found.detail
    assert checks.key_file(tmp_path / "none").level is Level.PROBLEM


def test_a_certificate_is_renewed_in_time(authority: Authority, tmp_path: Path) -> None:
    pair = authority.client("checked")
    now = time.time()
    levels = [checks.certificate_file(pair.cert, now + days * DAY).level for days in (0, 800, 830)]
    assert levels == [Level.OK, Level.WARNING, Level.PROBLEM]
    assert checks.certificate_file(tmp_path / "none").level is Level.PROBLEM
    settings = TlsSettings(cert_file=pair.cert, key_file=pair.key)
    assert len(checks.files(settings)) == 2
    assert checks.files(TlsSettings()) == []


def test_what_was_met_is_judged() -> None:
    certificate = Certificate("a", "ca", ("a",), 0, 100 * DAY, False)
    met = Met(address="a:1", speaks_tls=True, takes_plain=True, certificate=certificate)
    assert [each.level for each in checks.judged(met, 0)] == [Level.WARNING, Level.OK]
    wrong = Met(address="a:1", speaks_tls=True, takes_plain=False, problem="not for a")
    (found,) = checks.judged(wrong, 0)
    assert (found.level, found.detail) == (Level.PROBLEM, "not for a")
    (none,) = checks.judged(Met(address="a:1", speaks_tls=False, takes_plain=True), 0)
    assert none.detail == "there is none"


async def test_servers_are_asked_and_who_is_gone_is_unknown(authority: Authority) -> None:
    async with answering(server_tls(authority)) as (address, _):
        settings = TlsSettings(ca_file=authority.ca_file)
        found = await checks.servers([address, address, "127.0.0.1:1"], settings)
        assert sorted(each.level for each in found) == [Level.OK, Level.UNKNOWN]
