"""What a server is told about who is let in, under the keys that RocketMQ has for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret, check_secret
from rocketpipe.auth.subject import User, UserType, check_user
from rocketpipe.config.setting import setting
from rocketpipe.errors import ConfigError, RocketPipeError
from rocketpipe.protocol.codes import RequestCode

#: As whom the servers of `serve --secure` ask each other, and nobody else anything.
INNER_USER: Final = "rocketpipe-inner"
#: What strangers may be answered, if a server is told so: routes that everybody may have.
_MAY_BE_OPEN: Final = frozenset({int(RequestCode.GET_ROUTEINFO_BY_TOPIC)})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthConfig:
    """Whether requests are checked, and who is known from the start."""

    authentication: bool = setting(
        "authenticationEnabled",
        default=False,
        help="every request is to be signed by a user that is known",
    )
    authorization: bool | None = setting(
        "authorizationEnabled",
        default=None,
        help="users may do what they were granted, and nothing else; without a value it is on "
        "with `authenticationEnabled`, and it cannot be on without",
    )
    acl_enabled: bool = setting(
        "aclEnable", default=False, help="RocketMQ 4.9's name for both of these together"
    )
    plain_acl_file: Path | None = setting(
        "plainAclFile",
        default=None,
        help="with `aclEnable`, RocketMQ 4.9's file of accounts, read at the start and when it "
        "changes; if nothing is said, the `plain_acl.yml` beside the file that says `aclEnable`",
    )
    white_lists_ignored: bool = setting(
        "aclAllowWhiteList",
        default=False,
        help="start with a `plain_acl.yml` that lets addresses in without a login; they are not "
        "let in for all that",
    )
    auth_directory: Path | None = setting(
        "authConfigPath",
        default=None,
        help="the directory of `users.json` and `acls.json`; a broker has them in `config` of its "
        "data, if nothing is said",
    )
    init_user: str | None = setting(
        "initAuthenticationUser",
        default=None,
        repr=False,
        help='`{"username":"…","password":"…"}`: made at the start, as one who may do everything, '
        "unless it is there",
    )
    init_user_file: Path | None = setting(
        "initAuthenticationUserFile", default=None, help="the same, in a file"
    )
    inner_credentials: str | None = setting(
        "innerClientAuthenticationCredentials",
        default=None,
        repr=False,
        help='`{"accessKey":"…","secretKey":"…"}`: as whom this server asks others; made like the '
        "first user",
    )
    inner_credentials_file: Path | None = setting(
        "innerClientAuthenticationCredentialsFile", default=None, help="the same, in a file"
    )
    open_codes: str = setting(
        "authenticationWhitelist",
        default="",
        help="codes that are answered to strangers; 105 alone can be",
    )

    audit_file: Path | None = setting(
        "auditLogPath",
        default=None,
        help="the file of who did what; without one its lines are in the log, of the logger "
        "`rocketpipe.audit`",
    )
    audit_bytes: int = setting(
        "auditLogMaxBytes",
        default=64 << 20,
        unit="bytes",
        least=4 << 10,
        help="how long that file becomes before another is begun",
    )
    audit_files: int = setting(
        "auditLogMaxFiles", default=10, least=1, most=1000, help="how many of them are kept"
    )

    @property
    def authenticates(self) -> bool:
        """Whether requests are checked."""
        return self.authentication or self.acl_enabled

    @property
    def authorizes(self) -> bool:
        """Whether rights are asked for, beside who it is."""
        return self.authenticates and self.authorization is not False

    def check_auth(self) -> None:
        """Refuse what does not fit together.

        Raises:
            ConfigError: If something does not.
        """
        if self.authorization and not self.authenticates:
            raise ConfigError(
                "authorizationEnabled",
                "without authenticationEnabled everybody could say to be anybody: set both",
            )
        if self.plain_acl_file is not None and not self.acl_enabled:
            raise ConfigError("plainAclFile", "is read with aclEnable=true only: set both")
        self.codes_for_strangers()

    def codes_for_strangers(self) -> frozenset[int]:
        """The codes that strangers are answered.

        Raises:
            ConfigError: If there is one that cannot be open.
        """
        texts = [text.strip() for text in self.open_codes.split(",") if text.strip()]
        if not all(text.isdecimal() and int(text) in _MAY_BE_OPEN for text in texts):
            raise ConfigError("authenticationWhitelist", "only 105 can be open to strangers")
        return frozenset(map(int, texts))

    def inner_client(self) -> Credentials | None:
        """As whom this server asks others; None if that is left open.

        Raises:
            ConfigError: If what is said cannot be read.
        """
        key = "innerClientAuthenticationCredentials"
        found = _pair(
            key, self.inner_credentials, self.inner_credentials_file, ("accessKey", "secretKey")
        )
        return None if found is None else Credentials(*found)

    def first_users(self) -> list[User]:
        """Those who are made at the start, unless they are there.

        Raises:
            ConfigError: If what is said of one cannot be read.
        """
        inner = self.inner_client()
        key = "initAuthenticationUser"
        first = _pair(key, self.init_user, self.init_user_file, ("username", "password"))
        pairs = [first, (inner.access_key, inner.secret) if inner is not None else None]
        return [
            User(name=pair[0], secret=pair[1], type=UserType.SUPER)
            for pair in pairs
            if pair is not None
        ]


def _pair(
    key: str, text: str | None, file: Path | None, names: tuple[str, str]
) -> tuple[str, Secret] | None:
    if text and file is not None:
        raise ConfigError(key, f"is given, and {key}File too: give one of them")
    if file is not None:
        try:
            text = file.expanduser().read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{key}File", f"{file} cannot be read: {error}") from error
    if not text or not text.strip():
        return None
    try:
        found = msgspec.json.decode(text, type=dict[str, str])
        name, secret = (found[each] for each in names)
        return check_user(name), check_secret(secret, least=1)
    except (msgspec.MsgspecError, KeyError, ValueError, RocketPipeError) as error:
        reason = "" if isinstance(error, msgspec.MsgspecError | KeyError) else f": {error}"
        # The text is not shown: it has a secret in it.
        raise ConfigError(
            key, f'{{"{names[0]}":"…","{names[1]}":"…"}} is expected{reason}'
        ) from None
