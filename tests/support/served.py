"""Which of the APIs on the wire a broker tells of."""

from barnabas.wire.apis import APIS, UNADVERTISED

ADVERTISED = {key: api for key, api in APIS.items() if key not in UNADVERTISED}
