"""How readers and writers connect, and as whom: options, else the driver's environment.

    tls            true: every connection is encrypted; else what ROCKETPIPE_TLS says on the driver
    caFile         the CA of the servers, PEM; else ROCKETPIPE_CA_FILE, then those of the system
    certFile       what is shown to servers that want a client's; else ROCKETPIPE_CERT_FILE
    keyFile        the key of that certificate; else ROCKETPIPE_KEY_FILE
    accessKey      the user whose rights count; else ROCKETPIPE_ACCESS_KEY
    secretKeyFile  the file whose first line is its secret; else ROCKETPIPE_SECRET_KEY_FILE
    secretKeyEnv   or: the environment variable that holds it; else ROCKETPIPE_SECRET_KEY
    secretKey      or: the secret itself, which then travels with the tasks

Files and variables are read where tasks run: driver and executors have them under the same names.
Nothing but the names is in a plan.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rocketpipe.auth.secret import HIDDEN, Secret
from rocketpipe.client import credentials
from rocketpipe.client.session import Session
from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.options.text import OptionError, flag
from rocketpipe.remoting.caller import CALL_TIMEOUT_MS
from rocketpipe.remoting.tls_settings import TlsSettings

TLS: Final = "tls"
CA_FILE: Final = "caFile"
CERT_FILE: Final = "certFile"
KEY_FILE: Final = "keyFile"
ACCESS_KEY: Final = "accessKey"
SECRET_KEY: Final = "secretKey"  # noqa: S105 - the name of an option
SECRET_KEY_FILE: Final = "secretKeyFile"  # noqa: S105
SECRET_KEY_ENV: Final = "secretKeyEnv"  # noqa: S105
OPTIONS: Final = (
    TLS,
    CA_FILE,
    CERT_FILE,
    KEY_FILE,
    ACCESS_KEY,
    SECRET_KEY,
    SECRET_KEY_FILE,
    SECRET_KEY_ENV,
)

_FIELDS: Final = {CA_FILE: "ca_file", CERT_FILE: "cert_file", KEY_FILE: "key_file"}
_SECRETS: Final = (SECRET_KEY, SECRET_KEY_FILE, SECRET_KEY_ENV)


@dataclass(frozen=True, slots=True)
class Access:
    """How sessions are opened, wherever tasks run: encrypted or not, and as whom."""

    tls: TlsSettings | None = None
    access_key: str | None = None
    secret_key: Secret | None = None
    secret_key_file: str | None = None
    #: The environment variable that holds the secret.
    secret_key_env: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Access:
        """What was said, on the driver; ``given`` has the options by names in lower case.

        Raises:
            OptionError: If it has no sense, or a file is not there.
        """
        said = {
            option: text
            for option in (ACCESS_KEY, *_SECRETS)
            if (text := given.get(option.lower())) is not None
        }
        for option, text in said.items():
            if not text:
                raise OptionError(option, "is empty: leave it out, or give what it names")
        name = said.get(ACCESS_KEY) or environment.get(credentials.ACCESS_KEY) or None
        ways = [option for option in _SECRETS if option in said]
        if len(ways) > 1:
            raise OptionError(ways[0], f"is given, and {ways[1]!r} too: leave one of them out")
        if not ways and environment.get(credentials.SECRET_KEY):
            said[SECRET_KEY_ENV] = credentials.SECRET_KEY
        elif not ways and (path := environment.get(credentials.SECRET_KEY_FILE)):
            said[SECRET_KEY_FILE] = path
        has_secret = any(option in said for option in _SECRETS)
        if name is None and has_secret:
            raise OptionError(
                ACCESS_KEY,
                f"is missing, and there is a secret: give the user whose it is, or set "
                f"{credentials.ACCESS_KEY} before Spark starts",
            )
        if name is not None and not has_secret:
            raise OptionError(
                ACCESS_KEY,
                f"is {name!r}, and there is no secret: add {SECRET_KEY_FILE!r}, or set "
                f"{credentials.SECRET_KEY_FILE} before Spark starts",
            )
        if said.get(SECRET_KEY) == HIDDEN:
            raise OptionError(SECRET_KEY, f"is {HIDDEN}, which stands for a secret and is none")
        return cls(
            tls=tls_of(given),
            access_key=name,
            secret_key=Secret(said[SECRET_KEY]) if SECRET_KEY in said else None,
            secret_key_file=(
                _file(SECRET_KEY_FILE, said[SECRET_KEY_FILE]) if SECRET_KEY_FILE in said else None
            ),
            secret_key_env=said.get(SECRET_KEY_ENV),
        )

    def session(self, name_servers: str, *, timeout_ms: int = CALL_TIMEOUT_MS) -> Session:
        """A session as this says; the secret is read now.

        Raises:
            OptionError: If it is not there.
        """
        secret = self.secret_key
        if self.secret_key_env is not None:
            text = os.environ.get(self.secret_key_env)
            if not text:
                raise OptionError(
                    SECRET_KEY_ENV,
                    f"is {self.secret_key_env!r}, which is not set where this task runs: start "
                    f"Spark with it, set spark.executorEnv.{self.secret_key_env}, or use "
                    f"{SECRET_KEY_FILE!r}",
                )
            secret = Secret(text)
        try:
            return Session(
                name_servers,
                timeout_ms=timeout_ms,
                tls=self.tls or False,
                access_key=self.access_key,
                secret_key=secret,
                secret_key_file=self.secret_key_file,
            )
        except ConfigError as error:
            raise OptionError(ACCESS_KEY, f"is {self.access_key!r}: {error}") from None


def tls_of(given: Mapping[str, str]) -> TlsSettings | None:
    """What was said, on the driver; None for plain connections.

    Raises:
        OptionError: If it has no sense, or a file is not there.
    """
    files: dict[str, Any] = {
        field: _file(option, text)
        for option, field in _FIELDS.items()
        if (text := given.get(option.lower()))
    }
    said = given.get(TLS)
    wanted = flag(TLS, said) if said is not None else (True if files else None)
    try:
        told = TlsSettings.of(wanted)
    except ConfigError as error:
        raise OptionError(TLS, f"is left to {error}") from error
    if told is None:
        if files:
            raise OptionError(TLS, "is false, and files for it are named: leave one of them out")
        return None
    told = dataclasses.replace(told, **files)
    if (told.cert_file is None) != (told.key_file is None):
        raise OptionError(KEY_FILE, f"and {CERT_FILE!r} belong together: give both")
    return told


def _file(option: str, text: str) -> str:
    path = Path(text).expanduser().absolute()  # tasks run in directories of their own
    if not path.is_file():
        raise OptionError(option, f"names {text!r}, and there is no such file here")
    return str(path)
