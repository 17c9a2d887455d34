"""Accounts of RocketMQ 4.9, which brokers of today take for users with rights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocketpipe.auth.secret import Secret
from rocketpipe.client.admin.fleet import Fleet
from rocketpipe.protocol.requests.users import (
    DeletePlainAccount,
    GetPlainAclVersion,
    PlainAclVersion,
    UpdateGlobalWhiteAddresses,
    UpdatePlainAccount,
)


class PlainAccountAdmin:
    """Makes and removes accounts as RocketMQ 4.9 has them, at brokers."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def update(
        self,
        brokers: Mapping[str, str],
        name: str,
        secret: str | Secret | None = None,
        *,
        admin: bool = False,
        white_address: str | None = None,
        default_topic: str | None = None,
        default_group: str | None = None,
        topics: Sequence[str] = (),
        groups: Sequence[str] = (),
    ) -> None:
        """Make or change an account at brokers, by name and address: ``topics=["orders=PUB|SUB"]``.

        Raises:
            RequestRejected: If a permission is none, with code 209.
            PartlyDone: If some brokers did it, and others did not.
        """
        request = UpdatePlainAccount(
            access_key=name,
            secret_key=secret.reveal() if isinstance(secret, Secret) else secret,
            white_remote_address=white_address,
            default_topic_perm=default_topic,
            default_group_perm=default_group,
            topic_perms=",".join(topics) or None,
            group_perms=",".join(groups) or None,
            admin=admin,
        )
        await self._fleet.tell(brokers, request)

    async def delete(self, brokers: Mapping[str, str], name: str) -> None:
        """Remove an account at brokers, by name and address.

        Raises:
            RequestRejected: If there is none, with code 210.
            PartlyDone: If some brokers did it, and others did not.
        """
        await self._fleet.tell(brokers, DeletePlainAccount(access_key=name))

    async def versions(self, brokers: Mapping[str, str]) -> dict[str, PlainAclVersion]:
        """Which version of its accounts each broker has.

        Raises:
            RequestRejected: If one has no access control.
        """
        return await self._fleet.ask(brokers, GetPlainAclVersion())

    async def set_white_addresses(
        self, brokers: Mapping[str, str], addresses: str, file: str | None = None
    ) -> None:
        """Have addresses be let in without a login, which RocketMQ 4.9 does and we never do.

        Raises:
            RequestRejected: With code 211, at brokers of ours.
            PartlyDone: If some brokers did it, and others did not.
        """
        request = UpdateGlobalWhiteAddresses(global_white_addrs=addresses, acl_file_full_path=file)
        await self._fleet.tell(brokers, request)
