"""Config keys of SASL, delegation tokens and authorization."""

from typing import Final

KEYS: Final = """
authorizer.class.name string "" - low acts
    The authorizer, kafka.security.authorizer.AclAuthorizer; without one everybody may do
    everything.
super.users string null - high internal acts
    Principals that may do everything, separated by semicolons.
allow.everyone.if.no.acl.found boolean false - medium internal acts
    Whether everybody may use what no ACL names.
principal.builder.class class \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder - medium per-broker
    The Java class that names the principal of a connection; ignored.
security.providers string null - low
    Java classes of security providers; ignored.
connections.max.reauth.ms long 0 - medium acts
    After how long a client must authenticate again; 0 is never.
sasl.enabled.mechanisms list GSSAPI - medium per-broker acts
    The SASL mechanisms that are offered.
sasl.mechanism.inter.broker.protocol string GSSAPI - medium per-broker acts
    The SASL mechanism brokers use among themselves.
sasl.jaas.config password null - medium per-broker acts
    Users or credentials of a mechanism, as a JAAS login module.
sasl.server.callback.handler.class class null - medium acts
    Kafka's own classes are accepted, and none is loaded: the other properties decide.
sasl.server.max.receive.size int 49152 - medium acts
    The largest frame of a client that is not authenticated yet. Kafka's default is 524288, which
    is how much memory a stranger may then hold.
sasl.client.callback.handler.class class null - medium
    A Java class that supplies credentials; ignored.
sasl.login.class class null - medium
    A Java class that logs in; ignored.
sasl.login.callback.handler.class class null - medium acts
    Kafka's own classes are accepted, and none is loaded.
sasl.kerberos.service.name string null - medium per-broker
    The Kerberos name of the brokers. Not supported yet.
sasl.kerberos.kinit.cmd string /usr/bin/kinit - medium per-broker
    The path of kinit. Not supported yet.
sasl.kerberos.ticket.renew.window.factor double 0.8 - medium per-broker
    After what part of its life a Kerberos ticket is renewed. Not supported yet.
sasl.kerberos.ticket.renew.jitter double 0.05 - medium per-broker
    How much the renewal varies at random. Not supported yet.
sasl.kerberos.min.time.before.relogin long 60000 - medium per-broker
    How long to wait between renewals. Not supported yet.
sasl.kerberos.principal.to.local.rules list DEFAULT - medium per-broker
    How Kerberos principals become short names. Not supported yet.
sasl.login.refresh.window.factor double 0.8 - medium per-broker
    After what part of its life a token is renewed. Not supported yet.
sasl.login.refresh.window.jitter double 0.05 - medium per-broker
    How much that varies at random. Not supported yet.
sasl.login.refresh.min.period.seconds short 60 - medium per-broker
    How long a token is used at least before it is renewed. Not supported yet.
sasl.login.refresh.buffer.seconds short 300 - medium per-broker
    How long before its end a token is renewed. Not supported yet.
sasl.login.connect.timeout.ms int null - low
    How long connecting to the identity provider may take. Not supported yet.
sasl.login.read.timeout.ms int null - low
    How long a response of the identity provider may take. Not supported yet.
sasl.login.retry.backoff.ms long 100 - low
    How long to wait before the first new attempt to log in. Not supported yet.
sasl.login.retry.backoff.max.ms long 10000 - low
    How long to wait at most between attempts to log in. Not supported yet.
sasl.oauthbearer.scope.claim.name string scope - low acts
    The claim that holds the scope of a token.
sasl.oauthbearer.sub.claim.name string sub - low acts
    The claim that holds the subject of a token.
sasl.oauthbearer.token.endpoint.url string null - medium acts
    Where tokens are fetched from.
sasl.oauthbearer.jwks.endpoint.url string null - medium acts
    Where the keys that sign tokens are fetched from.
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 - low acts
    How often these keys are fetched.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 - low acts
    How long to wait before they are fetched again after a failure.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 - low acts
    How long to wait at most before they are fetched again.
sasl.oauthbearer.clock.skew.seconds int 30 - low acts
    The accepted clock skew of the identity provider.
sasl.oauthbearer.expected.audience list null - low acts
    The audiences that a token may name.
sasl.oauthbearer.expected.issuer string null - low acts
    The issuer that a token must name.
barnabas.sasl.oauthbearer.allowed.urls list "" - medium internal acts
    The URLs from which the keys of tokens may be read, separated by commas. A key of Barnabas;
    Kafka has a system property for it.
delegation.token.secret.key password null - medium acts
    The key that signs delegation tokens. The same on all brokers; without it there are no tokens.
delegation.token.master.key password null - medium acts
    An older name of delegation.token.secret.key.
delegation.token.max.lifetime.ms long 604800000 >=1 medium acts
    How long a delegation token can be renewed.
delegation.token.expiry.time.ms long 86400000 >=1 medium acts
    How long a delegation token is valid before it must be renewed.
delegation.token.expiry.check.interval.ms long 3600000 >=1 low acts
    How often delegation tokens are checked for expiration.
password.encoder.secret password null - medium acts
    The secret that encrypts passwords among the dynamic configurations.
password.encoder.old.secret password null - medium acts
    The secret before it was changed.
password.encoder.keyfactory.algorithm string null - low acts
    How the key is derived from that secret.
password.encoder.cipher.algorithm string AES/CBC/PKCS5Padding - low acts
    The cipher of these passwords.
password.encoder.key.length int 128 >=8 low acts
    The length of the key in bits.
password.encoder.iterations int 4096 >=1024 low acts
    How many rounds derive the key.
"""
