"""Users of a guarded server, made as an operator makes them."""

from __future__ import annotations

from collections.abc import Iterable

from rocketpipe.auth.credentials import Credentials
from rocketpipe.auth.secret import Secret
from rocketpipe.protocol.requests.users import (
    AclInfo,
    CreateAcl,
    CreateUser,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
)
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.tls_settings import TlsSettings


def entries(**rights: str) -> tuple[PolicyEntryInfo, ...]:
    """``Topic="orders:Pub other:Sub"``: names and their actions, by kind."""
    return tuple(
        PolicyEntryInfo(
            resource=f"{kind}:{each.partition(':')[0]}",
            actions=tuple(each.partition(":")[2].split(",")),
            decision="Allow",
        )
        for kind, text in rights.items()
        for each in text.split()
    )


async def make_user(
    addresses: Iterable[str],
    by: Credentials,
    name: str,
    tls: TlsSettings | None = None,
    **rights: str,
) -> Credentials:
    """Have servers know a user, who may do this: see `entries`."""
    made = Credentials(name, Secret(f"the-secret-of-{name}"))
    granted = entries(**rights)
    async with Caller(sign=by.sign, tls=tls) as caller:
        for address in addresses:
            info = UserInfo(password=made.secret.reveal())
            await caller.call(address, CreateUser(username=name, user=info))
            if granted:
                acl = AclInfo(policies=(PolicyInfo(policy_type="Custom", entries=granted),))
                await caller.call(address, CreateAcl(subject=f"User:{name}", acl=acl))
    return made
