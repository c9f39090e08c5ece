"""Config keys of the broker's identity, ZooKeeper and controlled shutdown."""

from typing import Final

KEYS: Final = """
broker.id int -1 - high acts
    The number of this broker in its cluster; node.id is another name for it.
node.id int -1 - high acts
    Another name for broker.id; if both are set they must agree.
broker.id.generation.enable boolean true - medium acts
    Whether a broker without broker.id gets a number above reserved.broker.max.id.
reserved.broker.max.id int 1000 >=0 medium acts
    The largest number that broker.id may have while broker.id.generation.enable is on.
broker.rack string null - medium acts
    The rack (or zone) of this broker, reported to clients; replicas are spread over racks.
zookeeper.connect string null - high acts
    ZooKeeper servers as host:port,host:port with an optional /chroot at the end; when it is not
    set, the broker keeps the coordination tree itself.
zookeeper.session.timeout.ms int 18000 - high acts
    How long ZooKeeper waits for a silent broker before it declares the broker dead.
zookeeper.connection.timeout.ms int null - high acts
    How long to wait for ZooKeeper at start; the session timeout when not set.
barnabas.unregister.enable boolean true - medium internal acts
    Whether the broker keeps its ZooKeeper session in its first log directory, so that the
    supervisor of a cluster, barnabas unregister and its own restart can end the session as soon as
    the process is dead; else all wait for zookeeper.session.timeout.ms. A key of Barnabas, not of
    Kafka.
zookeeper.max.in.flight.requests int 10 >=1 high
    How many requests may be on their way to ZooKeeper before the broker waits.
zookeeper.set.acl boolean false - high acts
    Whether znodes are created so that only authenticated brokers may change them.
zookeeper.ssl.client.enable boolean false - medium acts
    Whether to reach ZooKeeper over TLS.
barnabas.zookeeper.sasl.jaas.config password null - medium internal acts
    The login with ZooKeeper (DIGEST-MD5), as a JAAS login module with username and password;
    Kafka reads it from a file of Java. A key of Barnabas.
zookeeper.clientCnxnSocket string null - medium
    The socket class of the Java ZooKeeper client; ignored.
zookeeper.ssl.keystore.location string null - medium acts
    The key store with this broker's certificate for ZooKeeper.
zookeeper.ssl.keystore.password password null - medium acts
    The password of that key store.
zookeeper.ssl.keystore.type string null - medium acts
    The format of that key store.
zookeeper.ssl.truststore.location string null - medium acts
    The trust store with the certificates that ZooKeeper may show.
zookeeper.ssl.truststore.password password null - medium acts
    The password of that trust store.
zookeeper.ssl.truststore.type string null - medium acts
    The format of that trust store.
zookeeper.ssl.protocol string TLSv1.2 - low
    The TLS version to negotiate with ZooKeeper. Not supported yet.
zookeeper.ssl.enabled.protocols list null - low acts
    The TLS versions allowed with ZooKeeper.
zookeeper.ssl.cipher.suites list null - low acts
    The cipher suites allowed with ZooKeeper.
zookeeper.ssl.endpoint.identification.algorithm string HTTPS - low acts
    Whether ZooKeeper's certificate must name its host; empty to not check.
zookeeper.ssl.crl.enable boolean false - low
    Whether revocation lists are consulted for ZooKeeper's certificate. Not supported yet.
zookeeper.ssl.ocsp.enable boolean false - low
    Whether OCSP is consulted for ZooKeeper's certificate. Not supported yet.
controlled.shutdown.enable boolean true - medium acts
    Whether leadership is handed over before the broker stops.
controlled.shutdown.max.retries int 3 - medium acts
    How often the hand-over is attempted before the broker stops without it.
controlled.shutdown.retry.backoff.ms long 5000 - medium acts
    How long to wait before the hand-over is attempted again.
inter.broker.protocol.version string 3.9-IV0 protocol-version medium
    The Kafka version whose protocol brokers speak among themselves.
"""
