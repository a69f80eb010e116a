"""A new intermediate for the CA, rehearsed before it is used (SEC-01).

Nodes trust the root and get the intermediate with each certificate, so certificates of the old one stay valid until
they end, and renewals bring the new one. Nothing has to be restarted.
"""

from __future__ import annotations

from weft.errors import UsageError
from weft.security.authority import (
    PURPOSES,
    Authority,
    Signer,
    issue_leaf,
    new_signer,
    write_signer,
)
from weft.security.certificates import Names, PrivateKey, new_key, public_bytes, subject_names
from weft.security.identity import Kind, node
from weft.security.verification import Usage, verify_untrusted


def rehearse(authority: Authority, root_key: PrivateKey, now_s: float) -> Signer:
    """Make a new intermediate and try it, without changing anything. Raise what would go wrong, CertificateRefused for
    a bad one.

    ``root_key`` is that of the CA's root; ``now_s`` is Unix time.
    """
    settings = authority.settings
    if public_bytes(root_key.public_key()) != public_bytes(authority.root.public_key()):
        raise UsageError("the root's key is that of another CA", root=authority.fingerprint)
    signer = new_signer(settings.mesh, authority.root, root_key, now_s)
    names = Names(node(settings.mesh, "rehearsal"))
    chain = issue_leaf(
        signer,
        new_key().public_key(),
        names.identity.name,
        subject_names(names),
        PURPOSES[Kind.NODE],
        settings.lifetime_s,
        now_s,
    )
    verify_untrusted(chain, authority.root_pem, Usage.SERVER, now_s)
    return signer


def rotate(authority: Authority, root_key: PrivateKey, now_s: float) -> Signer:
    """Do the same for good. A running CA service uses the new one from its next certificate on."""
    signer = rehearse(authority, root_key, now_s)
    write_signer(authority.directory, signer)
    return signer
