"""Config keys of listeners, connections and requests."""

from typing import Final

KEYS: Final = """
listeners string PLAINTEXT://:9092 - high acts
    Where to listen, as NAME://host:port separated by commas; no host is every interface, port 0
    is any free port. A running broker refuses to change it, other than Kafka's.
advertised.listeners string null - high acts
    The endpoints that clients connect to, in the form of listeners; listeners when not set. A
    running broker refuses to change it, other than Kafka's.
listener.security.protocol.map string \
SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT - low acts
    The security protocol of each listener name, as NAME:PROTOCOL separated by commas.
inter.broker.listener.name string null - medium acts
    The listener that brokers use among themselves.
security.inter.broker.protocol string PLAINTEXT PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL medium acts
    The protocol brokers use among themselves, for when inter.broker.listener.name is not set.
control.plane.listener.name string null - high acts
    A listener for the controller's requests. It must be advertised and not be the inter-broker one,
    on which controllers of Barnabas send.
early.start.listeners string null - high
    Listeners that open before authorization is ready; ignored with ZooKeeper.
socket.send.buffer.bytes int 262144 - high acts
    The send buffer of each connection; -1 leaves it to the operating system. Kafka's default is
    102400, with which consumers of large or compressed batches are a little slower. Linux gives
    no more than net.core.wmem_max.
socket.receive.buffer.bytes int -1 - high acts
    The receive buffer of each connection; -1 leaves it to the operating system, but for listeners
    with TLS on a loopback address, which have 49152. Kafka's default is 102400, with which a
    broker needs a fifth more CPU time for produce requests without TLS.
socket.request.max.bytes int 104857600 >=1 high acts
    The largest request; a connection that announces a larger one is closed.
socket.listen.backlog.size int 4096 >=1 medium acts
    How many connections may wait to be accepted. Kafka's default is 50: after a restart, when all
    clients connect at once, those beyond it try again a second later. Linux allows no more than
    net.core.somaxconn.
socket.connection.setup.timeout.ms long 10000 - medium
    How long connecting to another broker may take at first.
socket.connection.setup.timeout.max.ms long 30000 - medium
    How long connecting to another broker may take after it failed several times.
max.connections int 2147483647 >=0 medium cluster-wide acts
    How many connections the broker allows at a time.
max.connections.per.ip int 2147483647 >=0 medium cluster-wide acts
    How many connections one address may open; 0 allows only max.connections.per.ip.overrides.
max.connections.per.ip.overrides string "" - medium cluster-wide acts
    Other limits for some addresses, as host:count separated by commas.
max.connection.creation.rate int 2147483647 >=0 medium cluster-wide acts
    How many connections per second the broker serves; those beyond wait.
connections.max.idle.ms long 600000 - medium acts
    After how long a silent connection is closed; negative is never.
connection.failed.authentication.delay.ms int 100 >=0 low acts
    How long the response to a failed authentication is delayed.
queued.max.requests int 500 >=1 high
    Kafka's limit on requests waiting for a thread; requests do not queue for threads here.
queued.max.request.bytes long 268435456 - medium acts
    How many bytes the requests may have that are received but not served yet, over all
    connections and beyond the first 16 KiB of each. Beyond it the broker stops reading, except
    from one connection with a small request and one with a large one at a time. Kafka's default,
    -1, is no limit.
barnabas.receive.stall.timeout.ms long 30000 >=1 low internal acts
    How long a client may pause in the middle of a request, until its connection is closed; within
    a large request, 64 KiB in this time are no pause. A tenth of it while others wait for the
    memory that the request holds. A key of Barnabas, not of Kafka.
barnabas.authentication.timeout.ms long 30000 >=1 low internal acts
    How long a TLS handshake may take, and after it SASL, until the connection is closed. A key of
    Barnabas, not of Kafka.
num.network.threads int 3 >=1 high cluster-wide
    Kafka's number of network threads; ignored: one event loop serves all connections.
num.io.threads int 8 >=1 high cluster-wide
    Kafka's number of request threads; ignored: one event loop handles all requests.
background.threads int 10 >=1 high cluster-wide
    Kafka's number of threads for background work; ignored.
request.timeout.ms int 30000 - high
    The timeout of a request to another broker.
max.incremental.fetch.session.cache.slots int 1000 >=0 medium acts
    How many fetch sessions the broker caches.
fetch.max.bytes int 57671680 >=1024 medium acts
    The most bytes in one fetch response, whatever the client requests. Partitions that
    have records share it.
max.request.partition.size.limit int 2000 >=1 medium acts
    The most partitions described in one DescribeTopicPartitions response.
unstable.api.versions.enable boolean false - high internal
    Whether API versions still under development are offered; there are none here.
unstable.feature.versions.enable boolean false - high internal
    Whether feature versions still under development are offered; there are none here.
"""
