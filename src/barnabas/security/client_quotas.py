"""Client quotas: what is configured for users, client ids and addresses, and what is in force."""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from barnabas.security.quota_rate import Meter, TokenBucket

PRODUCER: Final = "producer_byte_rate"
CONSUMER: Final = "consumer_byte_rate"
REQUEST: Final = "request_percentage"
MUTATION: Final = "controller_mutation_rate"
CONNECTION: Final = "connection_creation_rate"
CLIENT_KEYS: Final = (PRODUCER, CONSUMER, REQUEST, MUTATION)

# Responses in a row are hardly larger than this, and hardly take longer: percent of a second.
MOST_ANSWERED: Final = 1_500_000
MOST_PERCENT: Final = 1.0
NS_PER_PERCENT: Final = 1e7
# Clients that are found by one look-up, and meters beyond which those out of use are dropped.
MOST_CLIENTS: Final = 50_000
MOST_METERS: Final = 10_000
# A client may use another name with each request. Longer names are not kept.
LONGEST_CLIENT_ID: Final = 255

# The name of a default entity, and of a part that an entity does not have.
DEFAULT: Final = None
ABSENT: Final = False
Part = str | bool | None


class QuotaEntity(NamedTuple):
    """A user, a client id, both, or an address; a part is a name, the default, or absent."""

    user: Part = ABSENT
    client_id: Part = ABSENT
    ip: Part = ABSENT

    @property
    def parts(self) -> list[tuple[str, str | None]]:
        """The parts as Kafka's requests name them."""
        named = (("user", self.user), ("client-id", self.client_id), ("ip", self.ip))
        return [
            (kind, None if name is None else str(name)) for kind, name in named if name is not False
        ]


class Window(NamedTuple):
    """How many samples a rate has, and how long each is."""

    samples: int = 11
    seconds: float = 1.0


def levels(user: str, client_id: str) -> tuple[QuotaEntity, ...]:
    """The entities whose quota could be in force for a client; the first that has one counts."""
    return (
        QuotaEntity(user, client_id),
        QuotaEntity(user, DEFAULT),
        QuotaEntity(user),
        QuotaEntity(DEFAULT, client_id),
        QuotaEntity(DEFAULT, DEFAULT),
        QuotaEntity(DEFAULT),
        QuotaEntity(ABSENT, client_id),
        QuotaEntity(ABSENT, DEFAULT),
    )


class ClientMeters:
    """The meters of one client; None where no quota is in force."""

    __slots__ = ("consume", "mutations", "produce", "request")

    def __init__(self) -> None:
        self.produce: Meter | None = None
        self.consume: Meter | None = None
        self.request: Meter | None = None
        self.mutations: TokenBucket | None = None

    def __bool__(self) -> bool:
        return bool(self.produce or self.consume or self.request or self.mutations)

    def have_spare(self, is_produce: bool, received: int, now: float) -> bool:
        """True if requests of so many bytes cannot exceed a quota, so that `spend` is enough."""
        meter, size = (self.produce, received) if is_produce else (self.consume, MOST_ANSWERED)
        if (
            meter is not None
            and (now >= meter.spare_until or meter.spent + size > meter.spare)
            and not meter.has_spare(size, now)
        ):
            return False
        request = self.request
        return (
            request is None
            or (now < request.spare_until and request.spent + MOST_PERCENT <= request.spare)
            or request.has_spare(MOST_PERCENT, now)
        )

    def spend(self, is_produce: bool, received: int, sent: int, took_ns: int) -> None:
        """Count requests that were served after `have_spare`. Without a response (acks=0) the
        request quota does not count.
        """
        meter, size = (self.produce, received) if is_produce else (self.consume, sent)
        if meter is not None:
            meter.spent += size
        if self.request is not None and sent:
            self.request.spent += took_ns / NS_PER_PERCENT


# The quota that a meter measures, and its entity.
_Key = tuple[str, QuotaEntity]


class ClientQuotas:
    """The quotas of the cluster, and the meters of this broker's clients.

    Clients for which the same entity counts share a meter if the entity names what they share:
    all clients of a user have one meter if the user has a quota, as in Kafka.

    A default quota makes a meter for each client id and each address, so meters that nothing is
    recorded at any more are dropped from time to time. One that a connection still refers to is
    found again: nobody gets a second one by waiting.
    """

    def __init__(self, window: Window, controller_window: Window) -> None:
        self.window = window
        self._controller_window = controller_window
        self.entities: dict[QuotaEntity, dict[str, float]] = {}
        self._meters: dict[_Key, Meter | TokenBucket] = {}
        self._held: WeakValueDictionary[_Key, Meter | TokenBucket] = WeakValueDictionary()
        self._sweep_at = MOST_METERS
        self._clients: dict[tuple[str, str], ClientMeters] = {}
        self.is_used = False  # by any user or client id

    def know(self, entity: QuotaEntity, values: Mapping[str, float]) -> None:
        """Use these quotas of an entity; meters keep what they recorded."""
        if values:
            self.entities[entity] = dict(values)
        else:
            self.entities.pop(entity, None)
        self._clients.clear()
        self.is_used = any(each.ip is ABSENT for each in self.entities)

    def quota(self, user: str, client_id: str, key: str) -> tuple[QuotaEntity, float] | None:
        """The entity whose quota is in force, and its value."""
        for entity in levels(user, client_id):
            value = self.entities.get(entity, {}).get(key)
            if value is not None:
                return entity, value
        return None

    def of(self, user: str, client_id: str, now: float) -> ClientMeters:
        """The meters of a client: one look-up if it asked before."""
        found = self._clients.get((user, client_id))
        if found is None:
            if len(self._clients) >= MOST_CLIENTS:
                self._clients.clear()
            found = self._made(user, client_id, now)
            if len(client_id) <= LONGEST_CLIENT_ID:
                self._clients[user, client_id] = found
        return found

    def connections_of(self, ip: str, now: float) -> Meter | None:
        """The meter of an address's new connections, None if they have no quota."""
        for entity in (QuotaEntity(ip=ip), QuotaEntity(ip=DEFAULT)):
            bound = self.entities.get(entity, {}).get(CONNECTION)
            if bound is not None:
                return self._meter_at((CONNECTION, QuotaEntity(ip=ip)), bound, now)
        return None

    def _made(self, user: str, client_id: str, now: float) -> ClientMeters:
        meters = ClientMeters()
        meters.produce = self._meter(PRODUCER, user, client_id, now)
        meters.consume = self._meter(CONSUMER, user, client_id, now)
        meters.request = self._meter(REQUEST, user, client_id, now)
        found = self.quota(user, client_id, MUTATION)
        if found is not None:
            key = (MUTATION, _shared(found[0], user, client_id))
            bucket = self._held.get(key)
            if not isinstance(bucket, TokenBucket) or bucket.bound != found[1]:
                bucket = TokenBucket(found[1], *self._controller_window, now)
            self._keep(key, bucket, now)
            meters.mutations = bucket
        return meters

    def _meter(self, name: str, user: str, client_id: str, now: float) -> Meter | None:
        found = self.quota(user, client_id, name)
        if found is None:
            return None
        return self._meter_at((name, _shared(found[0], user, client_id)), found[1], now)

    def _meter_at(self, key: _Key, bound: float, now: float) -> Meter:
        meter = self._held.get(key)
        if not isinstance(meter, Meter):
            meter = Meter(bound, *self.window)
        meter.bound = bound
        self._keep(key, meter, now)
        return meter

    def _keep(self, key: _Key, meter: Meter | TokenBucket, now: float) -> None:
        if key not in self._meters and len(self._meters) >= self._sweep_at:
            self._drop_idle(now)
        self._meters[key] = self._held[key] = meter

    def _drop_idle(self, now: float) -> None:
        self._clients.clear()
        self._meters = {key: each for key, each in self._meters.items() if not each.is_idle(now)}
        self._sweep_at = max(MOST_METERS, 2 * len(self._meters))


def _shared(entity: QuotaEntity, user: str, client_id: str) -> QuotaEntity:
    """The clients that share a meter: a default counts for each name on its own."""
    if len(client_id) > LONGEST_CLIENT_ID:
        client_id = hashlib.sha256(client_id.encode()).hexdigest()
    return QuotaEntity(
        ABSENT if entity.user is ABSENT else user,
        ABSENT if entity.client_id is ABSENT else client_id,
    )
