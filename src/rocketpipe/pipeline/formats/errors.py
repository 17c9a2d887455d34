"""What may be wrong with the schema of bodies, and with where it is kept."""

from __future__ import annotations

from rocketpipe.errors import RocketPipeError


class BodySchemaError(RocketPipeError, ValueError):
    """A schema that bodies cannot be decoded by; the text names it and the next step."""

    def __init__(self, schema: str, reason: str) -> None:
        super().__init__(f"{schema}: {reason}")
        self.schema = schema
        self.reason = reason

    def __reduce__(self) -> tuple[type[BodySchemaError], tuple[str, str]]:
        return type(self), (self.schema, self.reason)


class RegistryError(RocketPipeError):
    """A schema registry that does not answer as one, or not at all."""

    def __init__(self, registry: str, reason: str) -> None:
        super().__init__(f"schema registry {registry}: {reason}")
        self.registry = registry
        self.reason = reason

    def __reduce__(self) -> tuple[type[RegistryError], tuple[str, str]]:
        return type(self), (self.registry, self.reason)


class RegistryAway(RegistryError):
    """A schema registry that cannot be reached now; later it may be."""


class NotRegistered(RegistryError):
    """A schema that the registry does not have."""
