"""Who is connected, and for which groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable


class ClientTable:
    """Members of consumer groups by the connection they heartbeat on."""

    def __init__(self) -> None:
        self._members: defaultdict[str, dict[Hashable, str]] = defaultdict(dict)

    def join(self, group: str, connection: Hashable, client_id: str) -> bool:
        """Note a member; True when it is new to the group."""
        known = self._members[group].get(connection) == client_id
        self._members[group][connection] = client_id
        return not known

    def leave(self, group: str, connection: Hashable) -> bool:
        """Forget a member; True when it was one."""
        members = self._members.get(group)
        if members is None or members.pop(connection, None) is None:
            return False
        if not members:
            del self._members[group]
        return True

    def disconnect(self, connection: Hashable) -> list[str]:
        """Forget a connection; returns the groups that lost a member."""
        return [group for group in list(self._members) if self.leave(group, connection)]

    def members(self, group: str) -> list[str]:
        """The client ids of a group, in order."""
        return sorted(self._members.get(group, {}).values())

    def connections(self, group: str) -> list[Hashable]:
        return list(self._members.get(group, ()))
