"""Every server of a test with access control, and every client a user: ``pytest --guarded``.

Clients in this process and commands are told by the environment who they are, as a user's are; so
are servers that are commands. Those in this process get other defaults. All of them read the same
users: one who may do everything, as whom servers ask each other, and one with rights on everything,
so that rights are asked for as well.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.policy import Action, Entry, Part, Policy, Resource
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserType
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.protocol.command import Command
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.files.disk import Disk

INNER: Final = Credentials("inner", Secret("the-secret-of-inner"))
APP: Final = Credentials("app", Secret("the-secret-of-app"))
_INNER_TEXT: Final = '{"accessKey":"inner","secretKey":"the-secret-of-inner"}'

#: What has users of its own, or asks what happens without any (an address that others can reach
#: needs a word of consent), or has bytes of Java's to write that nobody signed.
OPEN: Final = (
    "test_access_control.py",
    "test_attacks.py",
    "test_commands.py",
    "test_guarded_kombu.py",
    "test_guarded_replicas.py",
    "test_guarded_serve.py",
    "test_guarded_spark.py",
    "test_java_frames.py",
    "test_known_holes.py",
    "test_login_floods.py",
    "test_secure_serve.py",
    "test_signing_clients.py",
    "test_walked_codes.py",
)


def signed(command: Command) -> Command:
    """What is written to a socket by hand: signed, where servers ask for that."""
    return APP.sign(command) if _is_on() else command


def guard(directory: Path) -> None:
    """Have everything from here on ask who it is; ``directory`` is for the users."""
    directory.mkdir(parents=True, exist_ok=True)
    UserTable.opened(Disk(), directory).put_all(
        [
            User(name="inner", secret=INNER.secret, type=UserType.SUPER),
            User(name="app", secret=APP.secret),
        ]
    )
    anything = Entry(resource=Resource.parse("*"), actions=frozenset({Action.ALL}))
    PolicyTable.opened(Disk(), directory).put(
        Policy(subject="User:app", entries={Part.CUSTOM: (anything,)})
    )
    os.environ |= {
        "ROCKETPIPE_AUTHENTICATION_ENABLED": "true",
        "ROCKETPIPE_AUTH_CONFIG_PATH": str(directory),
        "ROCKETPIPE_INNER_CLIENT_AUTHENTICATION_CREDENTIALS": _INNER_TEXT,
        "ROCKETPIPE_ACCESS_KEY": APP.access_key,
        "ROCKETPIPE_SECRET_KEY": APP.secret.reveal(),
    }
    join()


def join() -> None:
    """The same in a program that such a test has started; in any other nothing changes."""
    directory = os.environ.get("ROCKETPIPE_AUTH_CONFIG_PATH")
    if directory is None:
        return
    told = {
        "authentication": True,
        "auth_directory": Path(directory),
        "inner_credentials": _INNER_TEXT,
    }
    for config in (BrokerConfig, NamesrvConfig):
        _defaults(config.__init__, told)
    _defaults(Caller.__init__, {"sign": APP.sign})


def _defaults(function: Any, others: dict[str, Any]) -> None:
    assert others.keys() <= function.__kwdefaults__.keys()
    function.__kwdefaults__ |= others


def is_kept(variable: str) -> bool:
    """Whether this one stays for a command that is to have no variable of ours."""
    return _is_on() and variable in _VARIABLES


def _is_on() -> bool:
    return Caller.__init__.__kwdefaults__["sign"] is not None


_VARIABLES: Final = frozenset(
    f"ROCKETPIPE_{name}"
    for name in (
        "AUTHENTICATION_ENABLED",
        "AUTH_CONFIG_PATH",
        "INNER_CLIENT_AUTHENTICATION_CREDENTIALS",
        "ACCESS_KEY",
        "SECRET_KEY",
    )
)
