"""How each broker of a directory is started: the command that runs one, and its own address.

What was said to `serve` in files and in the environment is said to each; flags say what is its own:

    --name --data     as the roster has them
    --port            that of all, and ten further for each number: between them there is room for
                      the second port, two below, and the one for replicas behind it
    --advertise       the same, if a port was given
    --auth-directory  the one of all: who is made, changed or removed at one of them is so at all
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from rocketpipe.broker.config.advertise import advertised_address
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.cli.children.ports import LastingPorts
from rocketpipe.cli.serving import tls_option
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.caller import split_address
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.roster import Member, MemberState, Roster

PORT_STEP: Final = 10
_MOST_PORT: Final = 65_535


class Commands:
    """Gives the command of each broker."""

    def __init__(
        self,
        options: argparse.Namespace,
        config: BrokerConfig,
        roster: Roster,
        *,
        log_level: str,
    ) -> None:
        """Take what `serve` was told, and what came of it.

        Raises:
            ConfigError: There are not so many ports.
        """
        self._options = options
        self._config = config
        self._log_level = log_level
        self._lasting = LastingPorts(config.host) if config.port == 0 else None
        self._ports = {member.name: self._port(member) for member in roster.brokers}

    def _port(self, member: Member) -> int:
        if self._lasting is not None:
            return next(self._lasting)
        port = self._config.port + PORT_STEP * member.number
        if port > _MOST_PORT:
            raise ConfigError(
                "--broker",
                f"{member.name} would listen on port {port}, ten behind the one before it: begin "
                "with a lower one",
            )
        return port

    def another_port(self, member: Member) -> None:
        """Have a broker that could not start look elsewhere, if its port was left to us."""
        if self._lasting is not None:
            self._ports[member.name] = self._port(member)

    def address(self, member: Member) -> str:
        """Where it listens."""
        return _joined(self._config.host, self._ports[member.name])

    def of(self, member: Member, name_server: str) -> list[str]:
        """The command that runs one in the foreground."""
        options, config = self._options, self._config
        port = self._ports[member.name]
        command = [sys.executable, "-m", "rocketpipe.cli.main", "broker", "--supervised"]
        command += [
            "-n",
            name_server,
            "--name",
            member.name,
            "--data",
            str(member.root(config.data)),
        ]
        command += ["--bind", config.host, "--port", str(port), "--profile", config.profile]
        command += ["--log-level", self._log_level, "--log-format", options.log_format]
        command += ["-o", "json"]
        for each in options.config:
            command += ["-c", str(each)]
        command += tls_option.passed_on(options)
        if options.flush:
            command += ["--flush", options.flush]
        if config.advertise is not None:
            command += ["--advertise", _advertised(config.advertise, port, member.number)]
        if self._lasting is not None:
            command.append("--no-fast-port")
        if options.http is not None:
            command += ["--http", "127.0.0.1:0"]
            if options.http_token_file is not None:
                command += ["--http-token-file", str(options.http_token_file)]
        if config.authenticates:
            command += ["--auth-directory", str(users_of(config))]
        if config.audit_file is not None:
            # A file of its own: what two processes write is begun anew by one of them.
            file = config.audit_file
            command += ["--audit-log", str(file.with_name(f"{file.stem}-{member.name}.log"))]
        if member.state is not MemberState.SERVING:
            command += ["--state", member.state]
        command += [flag for flag in ("--small-files", "--insecure") if _given(options, flag)]
        return command


def users_of(config: BrokerConfig) -> Path:
    """The directory of users that the brokers have in common, with their NameServer."""
    return config.auth_directory or StoreLayout(config.data.absolute()).config


def _advertised(advertise: str, port: int, number: int) -> str:
    """Where clients reach one of them: a port that was given is the first one's."""
    host, told = split_address(advertised_address(advertise, _joined("127.0.0.1", port)))
    _, other = split_address(advertised_address(advertise, _joined("127.0.0.1", port + 1)))
    return _joined(host, told + PORT_STEP * number if told == other else told)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _given(options: argparse.Namespace, flag: str) -> bool:
    return bool(getattr(options, flag.strip("-").replace("-", "_")))
