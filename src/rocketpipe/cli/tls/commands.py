"""``rocketpipe tls``: certificates for a cluster, and what a client would meet at a port."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rocketpipe.cli.terminal.printing import Printer, add_format_flags
from rocketpipe.cli.tls.probe import Met, probe
from rocketpipe.cli.verbs import Verbs
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.authority import PAIR_DAYS, Authority
from rocketpipe.remoting.certificate import certificates_in
from rocketpipe.remoting.tls_settings import CA_FILE, CERT_FILE, KEY_FILE, TlsSettings

EXAMPLES: Final = """\
examples:
  rocketpipe tls init certs --host broker-1.example --host 10.0.0.7
  rocketpipe tls init certs --name broker-2 --host broker-2.example
  rocketpipe tls check 127.0.0.1:9876 --ca-file certs/ca.pem
  rocketpipe tls check broker-1.example:10911 -o json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the verbs of this noun."""
    verbs = Verbs(parser, EXAMPLES)
    init = verbs.add_local("init", "make a CA, and certificates for servers and a client", _init)
    init.description = (
        "Make a certificate authority in a directory, a certificate for a server and one for a "
        "client. In a directory that has a CA, that one signs again: so are certificates renewed, "
        "and made for other servers. Keys can be read by this user alone. Needs the extra tls."
    )
    init.add_argument("directory", type=Path, metavar="DIR", help="where they are kept")
    init.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name or address by which clients reach the server; several times. localhost, "
        "127.0.0.1 and ::1 are always among them",
    )
    init.add_argument(
        "--name", default="server", metavar="FILE", help="what the server's files are called"
    )
    init.add_argument(
        "--client",
        metavar="NAME",
        help="make or renew the pair of this client; else there is one called client",
    )
    init.add_argument(
        "--days", type=_days, default=PAIR_DAYS, metavar="N", help=f"good for so long ({PAIR_DAYS})"
    )
    add_format_flags(init)
    check = verbs.add_local("check", "say what a client would meet at a port", _check)
    check.description = (
        "Say what a client would meet at a port: whether TLS, plain connections or both are taken, "
        "the certificate, its names and its end, and whether this client would trust it. The exit "
        "code is 1 if it would not get in."
    )
    check.add_argument("address", metavar="HOST:PORT", help="of a NameServer or a broker")
    check.add_argument(
        "--ca-file", metavar="FILE", help=f"whom to trust, PEM; else ${CA_FILE}, then the system's"
    )
    check.add_argument(
        "--cert-file", metavar="FILE", help=f"what the client shows, PEM; else ${CERT_FILE}"
    )
    check.add_argument(
        "--key-file", metavar="FILE", help=f"the key of that certificate; else ${KEY_FILE}"
    )
    add_format_flags(check)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 36_500):
        raise argparse.ArgumentTypeError(f"{text!r}: 1 to 36500 days is expected")
    return int(text)


def _init(options: argparse.Namespace) -> int:
    for flag in ("name", "client"):
        name = getattr(options, flag) or "client"
        if Path(name).name != name or name.startswith((".", "ca")) or not name:
            raise ConfigError(f"--{flag}", f"{name!r} cannot be the name of a file there")
    made = Authority.opened(options.directory)
    server = made.server(options.host, name=options.name, days=options.days)
    client = made.pair(options.client or "client")
    if options.client or not client.cert.exists():
        client = made.client(options.client or "client", days=options.days)
    (found,) = certificates_in(server.cert.read_bytes())
    printer = Printer.of(options)
    told = {
        "ca": str(made.ca_file),
        "server_cert": str(server.cert),
        "server_key": str(server.key),
        "client_cert": str(client.cert),
        "client_key": str(client.key),
        "names": list(found.names),
        "expires": _moment(found.not_after_s),
    }
    if printer.form != "table":
        printer.record(told)
        return 0
    printer.record({**told, "names": ", ".join(found.names)})
    printer.line("")
    printer.line(f"servers:  rocketpipe serve --tls-cert {server.cert} --tls-key {server.key}")
    printer.line(f"clients:  export ROCKETPIPE_TLS=true ROCKETPIPE_CA_FILE={made.ca_file}")
    return 0


def _check(options: argparse.Namespace) -> int:
    told = TlsSettings.of(True)
    assert told is not None
    settings = TlsSettings(
        ca_file=options.ca_file or told.ca_file,
        cert_file=options.cert_file or told.cert_file,
        key_file=options.key_file or told.key_file,
        verify=told.verify,
    )
    try:
        met = probe(options.address, settings)
    except ValueError as error:
        raise ConfigError("HOST:PORT", str(error)) from error
    printer = Printer.of(options)
    printer.record(_record(met, as_text=printer.form == "table"))
    return 0 if met.speaks_tls and not met.problem else 1


def _record(met: Met, *, as_text: bool) -> dict[str, Any]:
    found = met.certificate
    names: Any = list(found.names) if found else []
    problem = met.problem
    if not met.speaks_tls and met.takes_plain:
        problem = "TLS is off there: set tls.server.mode and a certificate, or connect without"
    return {
        "address": met.address,
        "mode": met.mode,
        "version": met.version,
        "cipher": met.cipher,
        "subject": found.subject if found else "",
        "issuer": found.issuer if found else "",
        "names": ", ".join(names) if as_text else names,
        "expires": _moment(found.not_after_s) if found else "",
        "days_left": met.days_left(),
        "client_certificate": "required" if met.wants_certificate else "not required",
        "trusted": bool(found) and not problem,
        "problem": problem,
    }


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
