"""Who is who, and who may do what: certificates and the CA that issues them, API keys and rights, keys of devices.

Nothing here opens a gRPC connection; the node and the transports plug it in.

**Certificates** (SEC-01). ``Identity`` is a SPIFFE id. An embedded CA (``Authority``) or a real step-ca issues
certificates for a day:

- ``LocalSource(authority).enrol(names, now_s)`` on the CA's machine, ``enrol(token, now_s)`` on others; both give
  ``Credentials``, PEM texts for gRPC's ``ssl_server_credentials`` and ``ssl_channel_credentials``. ``CertificateStore``
  keeps them.
- ``Rotation(store, source, current, ...).run()`` renews for as long as the owner runs. ``on_renewed`` gets new
  credentials: open new channels, then close old ones. ``expires_in_s()`` is a metric.
- A server asks for client certificates and trusts ``credentials.root_pem`` alone. Then, for a peer,
  ``check_node(read_identity_untrusted(certificate), mesh, node_id)`` refuses a peer that claims another node's id; gRPC
  has the certificate in ``auth_context()["x509_pem_cert"]``.
- ``ca.server.CaServer(authority, host, port, clock, on_failed)`` serves step-ca's ``sign``, ``renew``, ``root`` and
  ``health``. Not exported here: it loads a web server, which SDKs and most nodes have no use for.

**API keys and rights** (SEC-02). Keys belong to the mesh: nodes sign what they say about them (``key_statements``),
merge what they hear (``mesh_keys``) and compare (``key_exchange``). ``create_key``, ``read_keys`` and ``revoke_key``
are for commands beside a node; the node has one ``Authenticator(KeyStore(data), ...)``:

- per call: ``principal = await authenticator.authenticate_untrusted(Secret(key), host)``, then
  ``principal.acl.check_publish(topic)``, ``check_subscribe(pattern)`` or ``check_admin(what)``;
- per open stream, every second: ``principal = authenticator.refresh(principal)``, which raises once the key is revoked;
- both raise ``Refused`` (``Unauthenticated``, ``NotAllowed``), whose ``cause`` goes to ``RefusalLog.note``: it counts,
  and says whether a log line is due.

**Keys of devices** (EMM-17, EMC-05). ``TrustFile(data, now_s).current(now_s)`` is a ``Trust``; when it is another
object than before, ``trust.fill(trust_store, before)`` and ``trust.key_ring()`` bring the codecs up to date.

Anything that must not be shown travels in a ``Secret``. Times of certificates, tokens and expiry are Unix seconds;
rates, reloading and ``RefusalLog`` take a monotonic clock.
"""

from weft.security.acl import Acl
from weft.security.api_keys import SALT_BYTES, SECRET_BYTES, KeyRecord
from weft.security.authenticator import Authenticator, Principal
from weft.security.authority import Authority, AuthoritySettings
from weft.security.certificates import Names, read_chain_untrusted, read_identity_untrusted
from weft.security.credentials import CertificateStore, Credentials, credentials
from weft.security.enrolment import enrol, renew
from weft.security.errors import (
    Cause,
    CertificateRefused,
    EnrolmentFailed,
    Fault,
    NotAllowed,
    Refused,
    RequestRefused,
    TokenRefused,
    Unauthenticated,
)
from weft.security.files import ca_directory, tls_directory
from weft.security.identity import BadIdentity, Identity, Kind, client, node, parse_identity_untrusted
from weft.security.issuing import provisioner_of
from weft.security.key_store import KeyRequest, KeyStore, create_key, new_key, read_keys, revoke_key
from weft.security.quota import quota_of
from weft.security.rates import FailureLimiter, RefusalLog, source_of
from weft.security.rotation import LocalSource, RemoteSource, Renewer, Rotation, Source
from weft.security.secret import Secret
from weft.security.trust_file import Trust, TrustFile
from weft.security.verification import Usage, check_node, verify_untrusted

__all__ = [
    "SALT_BYTES",
    "SECRET_BYTES",
    "Acl",
    "Authenticator",
    "Authority",
    "AuthoritySettings",
    "BadIdentity",
    "Cause",
    "CertificateRefused",
    "CertificateStore",
    "Credentials",
    "EnrolmentFailed",
    "FailureLimiter",
    "Fault",
    "Identity",
    "KeyRecord",
    "KeyRequest",
    "KeyStore",
    "Kind",
    "LocalSource",
    "Names",
    "NotAllowed",
    "Principal",
    "RefusalLog",
    "Refused",
    "RemoteSource",
    "Renewer",
    "RequestRefused",
    "Rotation",
    "Secret",
    "Source",
    "TokenRefused",
    "Trust",
    "TrustFile",
    "Unauthenticated",
    "Usage",
    "ca_directory",
    "check_node",
    "client",
    "create_key",
    "credentials",
    "enrol",
    "new_key",
    "node",
    "parse_identity_untrusted",
    "provisioner_of",
    "quota_of",
    "read_chain_untrusted",
    "read_identity_untrusted",
    "read_keys",
    "renew",
    "revoke_key",
    "source_of",
    "tls_directory",
    "verify_untrusted",
]
