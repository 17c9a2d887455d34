"""Which topic is meant by a name, and how its messages become rows."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from rocketpipe.blocking import Admin
from rocketpipe.errors import ConfigError
from rocketpipe.model.topic import BODY_SCHEMA
from rocketpipe.pipeline.formats.errors import BodySchemaError
from rocketpipe.pipeline.options.ddl import SchemaTextError
from rocketpipe.sql.bodies import TopicBodies
from rocketpipe.sql.errors import StatementFailed, unknown_table
from rocketpipe.sql.statements import Listing
from rocketpipe.sql.system_tables import NAMES, NAMESPACE

#: The schemas of bodies that were given with a command, by topic.
_FLAG: Final = "--schema"


class Catalogue:
    """Knows topics by name. What it has asked the cluster holds for one statement."""

    def __init__(
        self,
        admin: Admin,
        schemas: Mapping[str, TopicBodies] | None = None,
        registry: str | None = None,
    ) -> None:
        """Take what bodies hold, which goes before what topics have as an attribute.

        ``registry`` is where the schemas are that attributes do not have themselves.
        """
        self._admin = admin
        self._given = dict(schemas or {})
        self._registry = registry
        self._topics: dict[str, list[str]] | None = None

    def forget(self) -> None:
        """Ask the cluster anew when somebody asks."""
        self._topics = None

    def topics(self) -> list[str]:
        """Every topic, RocketMQ's own included.

        Raises:
            RocketPipeError: If no NameServer answers.
        """
        return [name for names in self._by_folded().values() for name in names]

    def topic(self, name: str) -> str | None:
        """The topic of this name; in another case, if there is but one."""
        alike = self._by_folded().get(name.lower(), [])
        if name in alike:
            return name
        return alike[0] if len(alike) == 1 else None

    def has_twin(self, name: str) -> bool:
        """Whether another topic's name differs in nothing but case."""
        return len(self._by_folded().get(name.lower(), [])) > 1

    def unknown(self, name: str) -> StatementFailed:
        """What to say of a name that nothing has."""
        return unknown_table(name, [*self.topics(), *(f"{NAMESPACE}.{each}" for each in NAMES)])

    def bodies(self, topic: str) -> TopicBodies | None:
        """What bodies of a topic hold, if that is known.

        Raises:
            StatementFailed: If what the topic has as attribute is no schema.
            RocketPipeError: If its brokers, or the registry, do not answer.
        """
        given = self._given.get(topic)
        if given is not None:
            return given
        settings = self._admin.topics.show(topic).settings.values()
        kept = next(
            (each.attributes[BODY_SCHEMA] for each in settings if BODY_SCHEMA in each.attributes),
            None,
        )
        if kept is None:
            return None
        try:
            return TopicBodies.of(kept, topic, registry=self._registry, has_files=False)
        except (SchemaTextError, BodySchemaError) as error:
            raise StatementFailed(
                f"the attribute {BODY_SCHEMA} of topic {topic!r} is no schema ({error}): "
                f"give one with {_FLAG} {topic}='city STRING, cents INT'"
            ) from error

    def listed(self, what: Listing) -> list[dict[str, str]]:
        """The tables there are, as rows; RocketMQ's own topics only if a pattern asks for them."""
        pattern = what.pattern.replace("%", "*") if "*" not in what.pattern else what.pattern
        patterns = [each.strip().lower() for each in pattern.split("|")]

        def fits(name: str) -> bool:
            return any(fnmatchcase(name.lower(), each) for each in patterns)

        ours = [
            f"{NAMESPACE}.{name}" for name in NAMES if fits(name) or fits(f"{NAMESPACE}.{name}")
        ]
        theirs: list[str] = []
        if not what.system_only:
            # A pattern may mean any topic; without one, RocketMQ's own are left out.
            topics = self._admin.topics.names() if pattern == "*" else self.topics()
            theirs = [name for name in topics if fits(name)]
        return [{"table": name, "kind": "topic"} for name in sorted(theirs)] + [
            {"table": name, "kind": "system"} for name in ours
        ]

    def _by_folded(self) -> dict[str, list[str]]:
        if self._topics is None:
            found: dict[str, list[str]] = {}
            for name in self._admin.topics.names(internal=True):
                found.setdefault(name.lower(), []).append(name)
            self._topics = found
        return self._topics


def schemas_given(texts: list[str], registry: str | None = None) -> dict[str, TopicBodies]:
    """What ``--schema orders='city STRING, cents INT'`` says, or ``--schema orders=avro:o.avsc``.

    Raises:
        ConfigError: If one has no topic, or is no schema.
        RegistryError: If the registry does not answer.
    """
    found = {}
    for text in texts:
        topic, equals, schema = text.partition("=")
        if not (topic.strip() and equals and schema.strip()):
            raise ConfigError(_FLAG, f"{text!r} is not TOPIC='city STRING, cents INT'")
        name = topic.strip()
        try:
            found[name] = TopicBodies.of(schema, name, registry=registry)
        except (SchemaTextError, BodySchemaError) as error:
            raise ConfigError(_FLAG, f"of {name!r}: {error}") from error
    return found
