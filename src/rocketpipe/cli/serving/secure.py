"""``serve --secure``: what it takes to let in those who are known, over TLS, made once and kept.

    DATA/secure/ca.pem, ca-key.pem           a CA of its own
    DATA/secure/server.pem, server-key.pem   what every port shows; renewed 30 days before its end
    DATA/secure/inner.json                   as whom the servers ask each other
    DATA/secure/admin.key                    the secret of the first user, who may do everything
    DATA/secure/http.token                   for /metrics and /version
    DATA/secure/server.conf                  all of that as settings, for the servers
    DATA/config/users.json, acls.json        the users; one directory for all brokers of DATA
    DATA/logs/audit.log                      who did what
    DATA/client.env                          all of that as variables, for clients

Every file is written as a whole, and what a kill kept from being written is written by the next
start: the users last, and what says how to get in after them. What is there is used as it is.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import os
import secrets
import shlex
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rocketpipe.auth.config import INNER_USER, AuthConfig
from rocketpipe.auth.opening import open_tables
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserType
from rocketpipe.auth.users import UserTable
from rocketpipe.background import running
from rocketpipe.broker.config.advertise import advertised_address
from rocketpipe.cli.serving.banner import Fact
from rocketpipe.cli.serving.settings import conf_value
from rocketpipe.client.credentials import ACCESS_KEY, SECRET_KEY_FILE
from rocketpipe.client.name_servers import VARIABLES
from rocketpipe.clock import Clock, SystemClock
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.authority import LOCAL_NAMES, Authority, Pair, write_file
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.certificate import Certificate, CertificateError, certificates_in
from rocketpipe.remoting.tls_settings import CA_FILE, SWITCH, TlsConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout

FLAG: Final = "--secure"
FIRST_USER: Final = "admin"
#: A certificate with less than this ahead of it is made anew, at a start and while it serves.
RENEW_DAYS: Final = 30
_LOOK_EVERY_MS: Final = 3_600_000
_DAY_S: Final = 86_400
_OWN: Final = 0o600
_WRITTEN_BY_OTHERS: Final = 0o022

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """What was set up in a data directory."""

    data: Path
    #: The names by which clients may come; its own certificate has them.
    hosts: tuple[str, ...]
    #: Whom clients are to trust; None for whom they trust anyway.
    ca: Path | None
    #: Whether the certificate is ours to renew.
    own_certificate: bool
    #: Who was made for a first login, if that is still the way in.
    user: str | None

    @property
    def place(self) -> Path:
        """The directory of what was made."""
        return place_of(self.data)

    @property
    def conf(self) -> Path:
        """Settings, for servers."""
        return self.place / "server.conf"

    @property
    def key(self) -> Path:
        """The first user's secret."""
        return self.place / "admin.key"

    @property
    def token(self) -> Path:
        """What those show who watch."""
        return self.place / "http.token"

    @property
    def client_env(self) -> Path:
        """Variables, for clients."""
        return self.data / "client.env"

    def around(
        self, serving: Callable[[], AbstractAsyncContextManager[str]]
    ) -> Callable[[], AbstractAsyncContextManager[str]]:
        """A NameServer as before, whose certificate is renewed."""

        @asynccontextmanager
        async def served() -> AsyncIterator[str]:
            async with serving() as address, running(self._keep_renewed(SystemClock()), "renewal"):
                yield address

        return served

    def tell_clients(self, name_server: str) -> None:
        """Write the variables by which a client gets in, once there is somebody to answer it.

        Raises:
            ConfigError: If the file cannot be written.
        """
        told = {VARIABLES[0]: self.reached_at(name_server), SWITCH: "true"}
        if self.ca is not None:
            told[CA_FILE] = str(self.ca)
        if self.user is not None:
            told |= {ACCESS_KEY: self.user, SECRET_KEY_FILE: str(self.key)}
        lines = [
            "# Written by `rocketpipe serve --secure` at each start. In a shell:",
            f"#   set -a; . {shlex.quote(str(self.client_env))}; set +a",
            "# On another machine: copy the files it names, and name them as they are there.",
            *(f"{name}={shlex.quote(text)}" for name, text in told.items()),
        ]
        with _locked(self.place):  # or who begins meanwhile takes it for one that was left behind
            write_file(self.client_env, "".join(f"{line}\n" for line in lines).encode(), _OWN)

    def reached_at(self, name_server: str) -> str:
        """Where clients reach a NameServer that listens somewhere."""
        return advertised_address(None, name_server)

    def facts(self) -> list[Fact]:
        """What the banner says of it."""
        found = _certificate(Pair(self.place / "server.pem", self.place / "server-key.pem"))
        facts = []
        if self.own_certificate and found is not None:
            days = _days_left(found)
            text = f"for {', '.join(found.names)}; {days} days left, renewed by itself"
            facts.append(Fact("Certificate", text, "certificate_days_left", days))
        if self.user is not None:
            text = f"{self.user}, who may do everything; the secret is in {self.key}"
            facts.append(Fact("First user", text, "first_user", self.user))
        text = f"/metrics and /version want the one in {self.token}"
        facts.append(Fact("Token", text, "http_token_file", str(self.token)))
        facts.append(
            Fact("Clients", f"{self.client_env} has all they need", "client", str(self.client_env))
        )
        return facts

    def examples(self, name_server: str) -> dict[str, list[str]]:
        """How to connect, in each language, in lines that are to be copied."""
        at, user = self.reached_at(name_server), self.user or "NAME"
        key = str(self.key) if self.user else "FILE"
        ca = f"ca_file={str(self.ca)!r}" if self.ca else ""
        trust = f" -Dtls.client.trustCertPath={shlex.quote(str(self.ca))}" if self.ca else ""
        return {
            "Python": [
                f"Session({at!r}, access_key={user!r},",
                f"        secret_key_file={key!r},",
                f"        tls=TlsSettings({ca}))",
            ],
            "Java": [
                "java -Dtls.enable=true -Dtls.test.mode.enable=false "
                f"-Dtls.client.authServer=true{trust} …",
                f'new AclClientRPCHook(new SessionCredentials("{user}", '
                f"Files.readString(Path.of({json.dumps(key)})).strip()))",
                f'producer.setNamesrvAddr("{at}"); producer.setUseTLS(true);',
            ],
        }

    def next_steps(self) -> list[str]:
        """Two commands to try."""
        return [
            f"set -a; . {shlex.quote(str(self.client_env))}; set +a",
            "rocketpipe topic list",
        ]

    async def _keep_renewed(self, clock: Clock) -> None:
        while self.own_certificate:
            await clock.sleep(_LOOK_EVERY_MS)
            try:
                with _locked(self.place):
                    _server_pair(self.place, self.hosts)
            except ConfigError as error:
                log.error("the certificate is not renewed, and tried again in an hour: %s", error)


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--secure``."""
    parser.add_argument(
        FLAG,
        action="store_true",
        help="let in known users alone, over TLS alone, on every port: makes a CA, a certificate, "
        "a first user and client.env in the data directory, and uses them from then on",
    )


def check_flags(options: argparse.Namespace) -> None:
    """Refuse flags that open what ``--secure`` closes.

    Raises:
        ConfigError: If there are.
    """
    if options.insecure:
        raise ConfigError(FLAG, "and --insecure say the opposite: leave one of them out")
    if options.tls_mode not in (None, "enforcing"):
        raise ConfigError(FLAG, "tls.server.mode says otherwise: leave --tls-mode out")
    options.tls_mode = None  # so it is anyway, once there is a certificate


def place_of(data: Path) -> Path:
    """Where it is in a data directory."""
    return data.absolute() / "secure"


def set_up(data: Path, config: AuthConfig, tls: TlsConfig | None, hosts: Iterable[str]) -> Secured:
    """Make what is not there yet, beside what the settings have; ``hosts`` is where it listens.

    Raises:
        ConfigError: If something cannot be made or used.
        AuthFileUnusable: If the users cannot be.
    """
    data = data.absolute()
    place = place_of(data)
    own_certificate = tls is None or tls.tls_cert is None
    with _locked(place):
        if data.stat().st_mode & _WRITTEN_BY_OTHERS:
            log.warning("others may write in %s, and so become whom they like: chmod go-w", data)
        ca = tls.tls_ca if tls is not None else None
        names = tuple(dict.fromkeys(name for host in hosts for name in _names(host)))
        if own_certificate:
            _server_pair(place, names)
            ca = place / "ca.pem"
        given = config.inner_client()
        inner = given.access_key if given is not None else INNER_USER
        users = (config.auth_directory or StoreLayout(data).config).expanduser()
        if given is None:
            _write_once(place / "inner.json", _inner)
            _inner_user(users, AuthConfig(inner_credentials_file=place / "inner.json"))
        _write_once(place / "http.token", lambda: secrets.token_urlsafe(32) + "\n")
        user = _first_user(users, place / "admin.key", inner)
        made = Secured(data=data, hosts=names, ca=ca, own_certificate=own_certificate, user=user)
        write_file(made.conf, _conf(made, users, None if given else place / "inner.json"), _OWN)
    return made


def check(config: AuthConfig, tls: TlsConfig | None) -> None:
    """Refuse settings that open what ``--secure`` closes.

    Raises:
        ConfigError: If there are.
    """
    for key, holds in (
        ("authenticationEnabled", config.authenticates),
        ("authorizationEnabled", config.authorizes),
        ("tls.server.mode", tls is not None and tls.mode == "enforcing"),
    ):
        if not holds:
            raise ConfigError(FLAG, f"{key} says otherwise: leave one of them out")


def _names(host: str) -> list[str]:
    """By which names clients come to a server that listens somewhere."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - looked for, not listened on
        own, _ = split_address(
            advertised_address(None, f"[{host}]:1" if ":" in host else "0.0.0.0:1")
        )
        return [own, socket.gethostname()]
    return [host]


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """One at a time, of all processes: two would mix what each of them made."""
    try:
        place.parent.parent.mkdir(parents=True, exist_ok=True)
        for each in (place.parent, place):
            # Who may write there may put another directory with other users in their place.
            each.mkdir(mode=0o700, exist_ok=True)
        if place.stat().st_mode & _WRITTEN_BY_OTHERS:
            raise ConfigError(str(place), f"others may write in it: chmod 700 {place}")
        descriptor = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWN)
    except OSError as error:
        raise ConfigError(str(place), f"cannot be used ({error.strerror})") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in (*place.glob(".*.????????"), *place.parent.glob(".client.env.????????")):
            left.unlink(missing_ok=True)  # of one that was killed
        yield
    finally:
        os.close(descriptor)


def _server_pair(place: Path, hosts: Sequence[str]) -> None:
    """Have a certificate that fits its key, has these names, and some time ahead of it."""
    pair = Pair(place / "server.pem", place / "server-key.pem")
    found = _certificate(pair)
    known = tuple(found.names) if found is not None else ()
    missing = [host for host in hosts if found is None or not found.is_for(host)]
    if found is not None and not missing and _days_left(found) > RENEW_DAYS:
        _warn_of_ca(place)
        return
    made = Authority.opened(place)
    names = [*hosts, *(name for name in known if name not in {*hosts, *LOCAL_NAMES})]
    made.server(names)
    if found is not None:
        reason = (
            f"it is for {', '.join(missing)} too" if missing else "the old one was near its end"
        )
        log.warning("a new certificate is in %s: %s", pair.cert, reason)
    _warn_of_ca(place)


def _warn_of_ca(place: Path) -> None:
    """Say in time that clients will need another CA: nothing here can give it to them."""
    try:
        (found, *_) = certificates_in((place / "ca.pem").read_bytes())
    except (OSError, CertificateError):
        return
    if _days_left(found) <= RENEW_DAYS:
        log.warning(
            "the CA in %s ends in %d days: move %s away, start again, and give clients the new "
            "ca.pem",
            place / "ca.pem",
            _days_left(found),
            place,
        )


def _certificate(pair: Pair) -> Certificate | None:
    """The certificate of a pair, if there is one that can be used."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pair.cert, pair.key)
        (found, *_) = certificates_in(pair.cert.read_bytes())
    except (OSError, ssl.SSLError, CertificateError):
        return None
    return found


def _days_left(found: Certificate) -> int:
    return max(0, (found.not_after_s - SystemClock().now_ms() // 1000) // _DAY_S)


def _write_once(path: Path, text: Callable[[], str]) -> None:
    if not path.exists():
        write_file(path, text().encode(), _OWN)


def _inner() -> str:
    secret = Secret.generate().reveal()
    return json.dumps({"accessKey": INNER_USER, "secretKey": secret}) + "\n"


def _inner_user(users: Path, config: AuthConfig) -> None:
    """Have the servers known to each other, also where users are older: those of a backup."""
    credentials = config.inner_client()
    assert credentials is not None
    table = _users(users)
    known = table.get(credentials.access_key)
    if known is None or known.secret != credentials.secret or not known.is_super:
        table.put(User(name=credentials.access_key, secret=credentials.secret, type=UserType.SUPER))


def _users(users: Path) -> UserTable:
    users.mkdir(mode=0o700, parents=True, exist_ok=True)
    table, _ = open_tables(Disk(), users)
    table.look()
    return table


def _first_user(users: Path, key: Path, inner: str) -> str | None:
    """Make the first user, unless somebody is there who may do everything; gives its name.

    Who was removed does not come back by the secret that it had: there is a new one.
    """
    table = _users(users)
    known = table.get(FIRST_USER)
    able = {user.name for user in table.all() if user.is_super and user.is_enabled} - {inner}
    if able:
        if FIRST_USER not in able or known is None:
            return None
        kept = key.read_text().strip() if key.exists() else ""
        if known.secret != Secret(kept):
            log.warning(
                "%s has not the secret of %s: put it there, or clients find none", key, FIRST_USER
            )
        return FIRST_USER
    secret = Secret.generate()
    write_file(key, f"{secret.reveal()}\n".encode(), _OWN)
    table.put(User(name=FIRST_USER, secret=secret, type=UserType.SUPER))
    return FIRST_USER


def _conf(made: Secured, users: Path, inner: Path | None) -> bytes:
    told = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authConfigPath": str(users),
        "tls.server.mode": "enforcing",
    }
    if inner is not None:
        told["innerClientAuthenticationCredentialsFile"] = str(inner)
    if made.own_certificate:
        told |= {
            "tls.server.certPath": str(made.place / "server.pem"),
            "tls.server.keyPath": str(made.place / "server-key.pem"),
            "tls.client.trustCertPath": str(made.ca),
        }
    lines = ["# Written by `rocketpipe serve --secure` at each start."]
    lines += [f"{name}={conf_value(text)}" for name, text in told.items()]
    return "".join(f"{line}\n" for line in lines).encode()
