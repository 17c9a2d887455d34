"""Where a client's name and secret come from: what it is given, files, and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import HIDDEN, Secret
from rocketpipe.errors import ConfigError

ACCESS_KEY: Final = "ROCKETPIPE_ACCESS_KEY"
SECRET_KEY: Final = "ROCKETPIPE_SECRET_KEY"  # noqa: S105 - the name of a variable
SECRET_KEY_FILE: Final = "ROCKETPIPE_SECRET_KEY_FILE"  # noqa: S105
#: What clients are told by the environment.
VARIABLES: Final = (ACCESS_KEY, SECRET_KEY, SECRET_KEY_FILE)
_MOST_BYTES: Final = 4096


def credentials_of(
    access_key: str | None = None,
    secret_key: str | Secret | None = None,
    secret_key_file: str | Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Credentials | None:
    """Who a client is; None for nobody.

    What is given counts; the environment is asked for what is not.

    Raises:
        ConfigError: If there is a name without a secret, a secret without a name, two secrets, or
            a file that cannot be read.
    """
    name = access_key or environment.get(ACCESS_KEY) or ""
    if secret_key is not None and secret_key_file is not None:
        raise ConfigError("secret_key", "is given, and secret_key_file too: give one of them")
    if secret_key is None and secret_key_file is None:
        secret_key = environment.get(SECRET_KEY) or None
        if secret_key is None:
            secret_key_file = environment.get(SECRET_KEY_FILE) or None
    if isinstance(secret_key, str):
        secret_key = Secret(secret_key)
    if secret_key_file is not None:
        secret_key = read_secret(secret_key_file)
    if not name and not secret_key:
        return None
    if not secret_key:
        raise ConfigError(
            "access_key",
            f"{name!r} has no secret: give secret_key_file=, or set {SECRET_KEY_FILE}",
        )
    if not name:
        raise ConfigError("access_key", f"is missing: give access_key=, or set {ACCESS_KEY}")
    if secret_key.reveal() == HIDDEN:
        raise ConfigError("secret_key", f"{HIDDEN} stands for a secret, and is none")
    return Credentials(name, secret_key)


def read_secret(path: str | Path) -> Secret:
    """Read a secret, which is the first line of a file.

    Raises:
        ConfigError: If there is none.
    """
    try:
        with Path(path).expanduser().open("rb") as file:
            lines = file.read(_MOST_BYTES).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError("secret_key_file", f"{path} cannot be read: {reason}") from None
    if not lines or not lines[0].strip():
        raise ConfigError("secret_key_file", f"{path} has no secret in its first line")
    return Secret(lines[0].strip())
