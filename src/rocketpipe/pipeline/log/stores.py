"""The stores behind a path, by the names of their brokers: one, or those of `serve --brokers`.

DIR of one broker           its store, called as ``brokerName`` says
DIR of several              every store that the roster has, each under its broker's name
the same, with brokerName   that one
DIR/broker-a-1              one of several, under its name
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rocketpipe.errors import StoreError
from rocketpipe.pipeline.log.directory import LogNotFound
from rocketpipe.store import roster, set_aside
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.roster import Roster

#: What a broker is called that was not named: no file in its directory says it.
DEFAULT_BROKER: Final = "broker-a"


def stores_at(path: Path, broker_name: str | None = None) -> dict[str, Path]:
    """Every store that is read at a path, by its broker's name.

    A broker of several that has not stored anything yet has none.

    Raises:
        LogNotFound: If ``broker_name`` is none of several, or what says who they are is damaged.
    """
    known = _roster(path)
    if known is None:
        return {broker_name or _name_beside(path) or DEFAULT_BROKER: path}
    stores = {member.name: member.root(path) for member in known.brokers}
    if broker_name is not None:
        if broker_name not in stores:
            names = ", ".join(stores) or "none"
            raise LogNotFound(path, f"has no broker {broker_name!r} (it has {names})")
        stores = {broker_name: stores[broker_name]}
    begun = {name: root for name, root in stores.items() if StoreLayout(root).commit_log.is_dir()}
    return begun or stores


def store_of(path: Path, broker_name: str | None, queue_broker: str) -> Path:
    """The store that has a queue, by the name of the queue's broker; also of one that has left.

    Raises:
        LogNotFound: If there is none.
    """
    known = _roster(path)
    if known is None:
        return path  # whatever it was called when the read was planned
    stores = stores_at(path, broker_name)
    if queue_broker in stores:
        return stores[queue_broker]
    aside = set_aside.place_of(path, queue_broker)
    if StoreLayout(aside).commit_log.is_dir():
        return aside
    raise LogNotFound(path, f"has no broker {queue_broker!r} any more")


def ends_when_left(path: Path, broker: str) -> set_aside.QueueEnds | None:
    """How far the queues of a broker reached that has left; None if it has not.

    Raises:
        LogNotFound: If what says so is damaged.
    """
    try:
        return set_aside.load_ends(path, broker)
    except StoreError as error:
        raise LogNotFound(path, f"cannot be read ({error})") from error


def _name_beside(path: Path) -> str | None:
    """What a broker is called whose directory is in one that several share."""
    known = _roster(path.parent)
    if known is None:
        return None
    return next((each.name for each in known.brokers if each.directory == path.name), None)


def _roster(path: Path) -> Roster | None:
    try:
        return roster.load(path)
    except StoreError as error:
        raise LogNotFound(path, f"cannot be read ({error})") from error
