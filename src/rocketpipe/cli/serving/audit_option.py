"""The audit of a process that serves: the file that its lines go to, if it was asked for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from rocketpipe.auth.auditing.audit_file import AuditFile
from rocketpipe.auth.config import AuthConfig
from rocketpipe.cli.serving import settings

FLAG = "--audit-log"


def flags(options: argparse.Namespace) -> list[tuple[str, str | None, str]]:
    """Give what the flag said, as ``settings.given_to`` takes it."""
    return [("auditLogPath", options.audit_log, FLAG)]


@contextmanager
def written(config: AuthConfig) -> Iterator[None]:
    """Have the lines in the file that the settings name, for the length of the block.

    Raises:
        ConfigError: If it cannot be written.
    """
    if config.audit_file is None:
        yield
        return
    if not config.authenticates:
        settings.warn(
            [
                f"auditLogPath: {config.audit_file} stays empty, as nobody is asked for a name: "
                "set authenticationEnabled"
            ]
        )
    file = AuditFile(config.audit_file.expanduser(), config.audit_bytes, config.audit_files)
    file.install()
    try:
        yield
    finally:
        file.uninstall()
