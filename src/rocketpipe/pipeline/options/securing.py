"""How readers and writers connect: the options that say so, else the driver's environment.

    tls          true: every connection is encrypted; else what ROCKETPIPE_TLS says on the driver
    caFile       the CA of the servers, PEM; else ROCKETPIPE_CA_FILE, then those of the system
    certFile     what is shown to servers that want a client certificate; else ROCKETPIPE_CERT_FILE
    keyFile      the key of that certificate; else ROCKETPIPE_KEY_FILE

Files are read where tasks run: driver and executors have them under the same names. Nothing but
the names is in a plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rocketpipe.errors import ConfigError
from rocketpipe.pipeline.options.text import OptionError, flag
from rocketpipe.remoting.tls_settings import TlsSettings

TLS: Final = "tls"
CA_FILE: Final = "caFile"
CERT_FILE: Final = "certFile"
KEY_FILE: Final = "keyFile"
OPTIONS: Final = (TLS, CA_FILE, CERT_FILE, KEY_FILE)

_FIELDS: Final = {CA_FILE: "ca_file", CERT_FILE: "cert_file", KEY_FILE: "key_file"}


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
