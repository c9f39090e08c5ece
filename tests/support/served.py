"""The APIs that a broker advertises."""

from barnabas.wire.apis import APIS, UNADVERTISED

ADVERTISED = {key: api for key, api in APIS.items() if key not in UNADVERTISED}
