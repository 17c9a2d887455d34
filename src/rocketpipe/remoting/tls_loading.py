"""From RocketMQ's TLS keys, in a file or given by flags, to a server's settings.

RocketMQ has a test mode, on by default, in which a server makes its own certificate and a client
trusts anybody; and it does not check client certificates unless told to. Neither is so here, and
who asks for it is told.
"""

from __future__ import annotations

import stat
import time
from pathlib import Path
from typing import Any, Final

from rocketpipe.config.load import Choice
from rocketpipe.config.setting import Setting, settings_of
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.certificate import CertificateError, certificates_in
from rocketpipe.remoting.tls import client_context, server_context
from rocketpipe.remoting.tls_settings import TlsConfig

TLS_SETTINGS: Final[tuple[Setting, ...]] = settings_of(TlsConfig)
_TEST_MODE: Final = "tls.test.mode.enable"
_AUTH_CLIENT: Final = "tls.server.authClient"
#: Keys that are looked at here alone.
HEARD: Final = frozenset({_TEST_MODE, _AUTH_CLIENT})
_SECRETS: Final = frozenset({"tls.server.keyPassword", "tls.client.keyPassword"})
_HIDDEN: Final = "******"
_SOON_DAYS: Final = 30


def tls_of(choice: Choice) -> TlsConfig | None:
    """Make the settings, and see that their files are what they should be; None if none is given.

    Raises:
        ConfigError: If a value is wrong, or a file.
    """
    values = choice.values(TLS_SETTINGS)
    _refuse_test_mode(choice, values)
    if not values:
        return None
    for attribute, value in values.items():
        if isinstance(value, Path):
            values[attribute] = value.expanduser()
    config = choice.build(TlsConfig, **values)
    if config == TlsConfig():
        return None
    _tell_of_checks(choice, config)
    _tell_of_files(choice, config)
    try:
        if config.mode != "disabled":
            server_context(config)
        if config.outgoing is not None:
            client_context(config.outgoing)
    except ConfigError as error:
        raise _blamed(choice, values, error) from error
    return config


def tls_items(config: TlsConfig | None) -> dict[str, str]:
    """Every setting by its key, as text; passwords are not told."""
    config = config or TlsConfig()
    items = {one.key: one.write(getattr(config, one.attribute)) for one in TLS_SETTINGS}
    return {key: _HIDDEN if key in _SECRETS and text else text for key, text in items.items()}


def _refuse_test_mode(choice: Choice, values: dict[str, Any]) -> None:
    given = choice.given(_TEST_MODE)
    if given is None or given.text.strip().lower() != "true":
        return
    if "tls_cert" in values:
        choice.warn(
            f"{given.origin}: {given.name}={given.text!r}: there is no test mode: the files that "
            "are named count"
        )
        return
    raise ConfigError(
        given.origin,
        f"{given.name}={given.text!r}: no server makes a certificate for itself here: set it to "
        "false; `rocketpipe tls init` makes some",
    )


def _tell_of_checks(choice: Choice, config: TlsConfig) -> None:
    given = choice.given(_AUTH_CLIENT)
    if given is None or config.tls_client_auth == "none":
        return
    if given.text.strip().lower() != "true":
        choice.warn(
            f"{given.origin}: {given.name}={given.text!r}: a client certificate that is shown is "
            "always checked"
        )


def _tell_of_files(choice: Choice, config: TlsConfig) -> None:
    """Warn of a key that others may read, and of a certificate that ends soon."""
    for one, attribute in (
        ("tls.server.keyPath", "tls_key"),
        ("tls.client.keyPath", "tls_own_key"),
    ):
        file, given = getattr(config, attribute), choice.given(one)
        if file is None or given is None or not file.exists():
            continue
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            choice.warn(
                f"{given.origin}: {given.name}={given.text!r}: others may read it (mode "
                f"{mode:03o}): chmod 600 {file}"
            )
    given = choice.given("tls.server.certPath")
    if given is None or config.tls_cert is None:
        return
    try:
        first, *_ = certificates_in(config.tls_cert.read_bytes())
    except (OSError, CertificateError):
        return  # which is said elsewhere
    days = int((first.not_after_s - time.time()) // 86_400)
    if days < _SOON_DAYS:
        ends = f"ends in {days} days" if days >= 0 else f"ended {-days} days ago"
        choice.warn(f"{given.origin}: {given.name}={given.text!r}: the certificate {ends}")


def _blamed(choice: Choice, values: dict[str, Any], error: ConfigError) -> ConfigError:
    """The same, as an error of the setting that names the file."""
    for one in TLS_SETTINGS:
        given = choice.given(one.key)
        if given is not None and str(values.get(one.attribute)) == error.where:
            return ConfigError(given.origin, f"{given.name}={given.text!r}: {error.reason}")
    return error
