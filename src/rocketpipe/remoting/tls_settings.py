"""What both sides of TLS are told: clients by `TlsSettings`, servers by RocketMQ's keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from rocketpipe.config.setting import setting
from rocketpipe.errors import ConfigError

Mode = Literal["disabled", "permissive", "enforcing"]

#: What clients are told by the environment.
SWITCH: Final = "ROCKETPIPE_TLS"
CA_FILE: Final = "ROCKETPIPE_CA_FILE"
CERT_FILE: Final = "ROCKETPIPE_CERT_FILE"
KEY_FILE: Final = "ROCKETPIPE_KEY_FILE"
VERIFY: Final = "ROCKETPIPE_TLS_VERIFY"
VARIABLES: Final = (SWITCH, CA_FILE, CERT_FILE, KEY_FILE, VERIFY)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How a client uses TLS: whom it trusts, and what it shows.

    Without ``ca_file`` it trusts whom the system trusts. ``cert_file`` and ``key_file`` are for
    servers that want a client certificate. ``verify=False`` takes whoever answers for the server:
    then what is sent is hidden from those who listen, and not from those who stand in between.
    """

    ca_file: str | Path | None = None
    cert_file: str | Path | None = None
    key_file: str | Path | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    #: Certificates that are trusted as they are, beside those of the CA: a server's own.
    pinned_file: str | Path | None = None

    @classmethod
    def of(
        cls, tls: bool | TlsSettings | None, environment: Mapping[str, str] = os.environ
    ) -> TlsSettings | None:
        """What a client was told: True stands for the files that the environment names.

        None leaves it all to the environment; False is plain.

        Raises:
            ConfigError: If a variable has no sense.
        """
        if isinstance(tls, TlsSettings):
            return tls
        if tls is None:
            tls = _switch(SWITCH, environment.get(SWITCH, "false"))
        if not tls:
            return None
        return cls(
            ca_file=environment.get(CA_FILE) or None,
            cert_file=environment.get(CERT_FILE) or None,
            key_file=environment.get(KEY_FILE) or None,
            verify=_switch(VERIFY, environment.get(VERIFY, "true")),
        )


def _switch(variable: str, text: str) -> bool:
    match text.strip().lower():
        case "true" | "1" | "yes" | "on":
            return True
        case "false" | "0" | "no" | "off" | "":
            return False
    raise ConfigError(variable, f"{text!r}: true or false is expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """What a server is told of TLS; one without a certificate, and without a mode, has none.

    Raises:
        ValueError: If settings do not fit together.
    """

    tls_mode: Mode | None = setting(
        "tls.server.mode",
        default=None,
        help="`disabled` takes plain connections alone, `permissive` both kinds on the same port, "
        "`enforcing` TLS alone; without it a certificate means `enforcing`",
    )
    tls_cert: Path | None = setting(
        "tls.server.certPath",
        default=None,
        help="its certificate and those of the CAs between, PEM; looked at every 5 s",
    )
    tls_key: Path | None = setting(
        "tls.server.keyPath", default=None, help="the certificate's key, PEM, PKCS#8 or PKCS#1"
    )
    tls_key_password: str | None = setting(
        "tls.server.keyPassword",
        default=None,
        repr=False,
        help="the password of that file, if it has one",
    )
    tls_key_password_file: Path | None = setting(
        "tls.server.keyPasswordFile", default=None, help="a file that has that password"
    )
    tls_client_ca: Path | None = setting(
        "tls.server.trustCertPath",
        default=None,
        help="the CAs of client certificates, PEM",
    )
    tls_client_auth: Literal["none", "optional", "require"] = setting(
        "tls.server.need.client.auth",
        default="none",
        help="whether clients show a certificate; one that is shown is always checked (RocketMQ: "
        "only with `tls.server.authClient`)",
    )
    tls_outgoing: bool | None = setting(
        "tls.enable",
        default=None,
        help="connections that it makes itself, to NameServers and other brokers, use TLS; without "
        "it they do if the mode is `enforcing`",
    )
    tls_ca: Path | None = setting(
        "tls.client.trustCertPath",
        default=None,
        help="the CA of those it connects to, PEM; without one `tls.server.trustCertPath`, or else "
        "those of the system and its own certificate",
    )
    tls_own_cert: Path | None = setting(
        "tls.client.certPath",
        default=None,
        help="what it shows to those it connects to; without one `tls.server.certPath`",
    )
    tls_own_key: Path | None = setting(
        "tls.client.keyPath", default=None, help="the key of that certificate"
    )
    tls_own_key_password: str | None = setting(
        "tls.client.keyPassword",
        default=None,
        repr=False,
        help="the password of that key's file",
    )
    tls_verify: bool = setting(
        "tls.client.authServer",
        default=True,
        help="certificate and host name of those it connects to are checked (RocketMQ: off, and "
        "never the name)",
    )

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            missing, there = ("keyPath", "certPath") if self.tls_cert else ("certPath", "keyPath")
            raise ValueError(f"tls.server.{there}: tls.server.{missing} has to be given too")
        if (self.tls_own_cert is None) != (self.tls_own_key is None):
            there = "certPath" if self.tls_own_cert else "keyPath"
            raise ValueError(f"tls.client.{there}: certificate and key have to be given together")
        if self.tls_cert is None and self.tls_mode in ("permissive", "enforcing"):
            raise ValueError(
                "tls.server.mode: there is no certificate: give tls.server.certPath and keyPath "
                "(--tls-cert, --tls-key); `rocketpipe tls init` makes some"
            )
        if self.tls_client_auth != "none" and self.tls_client_ca is None:
            raise ValueError(
                "tls.server.need.client.auth: client certificates are checked: give their CA, "
                "tls.server.trustCertPath (--tls-client-ca)"
            )

    @property
    def mode(self) -> Mode:
        """What is in force."""
        return self.tls_mode or ("disabled" if self.tls_cert is None else "enforcing")

    @property
    def key_password(self) -> str | None:
        """The password of the key, from where it is.

        Raises:
            ConfigError: If its file cannot be read.
        """
        file = self.tls_key_password_file
        if file is None:
            return self.tls_key_password
        try:
            return file.read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise ConfigError(str(file), f"cannot be read ({error.strerror})") from error

    @property
    def outgoing(self) -> TlsSettings | None:
        """How it connects to others; None if without TLS."""
        wanted = self.mode == "enforcing" if self.tls_outgoing is None else self.tls_outgoing
        if not wanted:
            return None
        own = self.tls_own_cert is not None
        ca = self.tls_ca or self.tls_client_ca
        return TlsSettings(
            ca_file=ca,
            cert_file=self.tls_own_cert if own else self.tls_cert,
            key_file=self.tls_own_key if own else self.tls_key,
            key_password=self.tls_own_key_password if own else self.key_password,
            verify=self.tls_verify,
            pinned_file=None if ca else self.tls_cert,
        )
