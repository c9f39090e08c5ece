"""SCRAM credentials of users below /config/users: read, described and altered."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.scram_credentials import (
    LEAST_ITERATIONS,
    MECHANISM_NUMBERS,
    MOST_ITERATIONS,
    ScramCredential,
    ScramCredentials,
    credential_of,
    credential_text,
)
from barnabas.server.cluster.configs import Configs
from barnabas.server.cluster.tree_errors import coordinating
from barnabas.znodes import paths
from barnabas.znodes.tree import Coordination, NoNode

log = logging.getLogger("barnabas.users")

MECHANISMS: Final = {number: name for name, number in MECHANISM_NUMBERS.items()}


class CredentialDeletion(NamedTuple):
    user: str
    mechanism: int


class Upsertion(NamedTuple):
    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class UserCredentials:
    """Keeps `ScramCredentials` as the tree has them, and changes both."""

    def __init__(
        self, coordination: Coordination, configs: Configs, credentials: ScramCredentials
    ) -> None:
        self._coordination = coordination
        self._configs = configs
        self._credentials = credentials

    async def load(self) -> None:
        """Read the credentials of all users: changes may have been missed."""
        names: Sequence[str] = ()
        with suppress(NoNode):
            names = await self._coordination.children(paths.USERS)
        found = [await self._configs.read(paths.user_entity_at(name)) for name in names]
        self._credentials.clear()
        for name, config in zip(names, found, strict=True):
            self._credentials.know(paths.desanitized(name), config)

    async def refresh(self, name: str) -> None:
        """Read the credentials of the user at this node: some broker has changed them."""
        config = await self._configs.read(paths.user_entity_at(name))
        self._credentials.know(paths.desanitized(name), config)

    # -- reading -------------------------------------------------------------

    def users(self) -> list[str]:
        return self._credentials.users()

    def describe(self, user: str) -> Mapping[str, ScramCredential]:
        """Raises BrokerError(resource_not_found)."""
        found = self._credentials.of_user(user)
        if not found:
            raise BrokerError(
                ErrorCode.resource_not_found,
                f"Attempt to describe a user credential that does not exist: {user}",
            )
        return found

    # -- changing ------------------------------------------------------------

    async def alter(
        self, deletions: Sequence[CredentialDeletion], upsertions: Sequence[Upsertion]
    ) -> dict[str, BrokerError | None]:
        """The outcome for each user; a user with an error keeps all credentials."""
        users = dict.fromkeys([*(d.user for d in deletions), *(u.user for u in upsertions)])
        outcomes: dict[str, BrokerError | None] = {}
        for user in users:
            own_deletions = [each for each in deletions if each.user == user]
            own_upsertions = [each for each in upsertions if each.user == user]
            try:
                _check(user, own_deletions, own_upsertions)
                await self._alter(user, own_deletions, own_upsertions)
            except BrokerError as error:
                outcomes[user] = error
            else:
                outcomes[user] = None
        return outcomes

    async def _alter(
        self, user: str, deletions: Sequence[CredentialDeletion], upsertions: Sequence[Upsertion]
    ) -> None:
        def change(config: dict[str, str]) -> None:
            for deletion in deletions:
                if config.pop(MECHANISMS[deletion.mechanism], None) is None:
                    raise BrokerError(
                        ErrorCode.resource_not_found,
                        "Attempt to delete a user credential that does not exist",
                    )
            for each in upsertions:
                mechanism = MECHANISMS[each.mechanism]
                config[mechanism] = credential_text(
                    credential_of(mechanism, each.salted_password, each.salt, each.iterations)
                )

        with coordinating():
            config = await self._configs.change(paths.user_entity(user), change)
            await self.refresh(paths.sanitized(user))
        log.info("credentials changed user=%s mechanisms=%s", user, ",".join(sorted(config)))


def _check(
    user: str, deletions: Sequence[CredentialDeletion], upsertions: Sequence[Upsertion]
) -> None:
    """Raises BrokerError with Kafka's code and message."""
    if not user:
        raise BrokerError(ErrorCode.unacceptable_credential, "Username must not be empty")
    named = [*(each.mechanism for each in deletions), *(each.mechanism for each in upsertions)]
    if any(mechanism not in MECHANISMS for mechanism in named):
        raise BrokerError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    if len(set(named)) < len(named):
        raise BrokerError(
            ErrorCode.duplicate_resource,
            "A user credential cannot be altered twice in the same request",
        )
    for each in upsertions:
        if each.iterations > MOST_ITERATIONS:
            raise BrokerError(ErrorCode.unacceptable_credential, "Too many iterations")
        if each.iterations < LEAST_ITERATIONS:
            raise BrokerError(ErrorCode.unacceptable_credential, "Too few iterations")
        if not each.salt or not each.salted_password:
            raise BrokerError(ErrorCode.unacceptable_credential, "Salt or password is empty")
