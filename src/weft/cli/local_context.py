"""The context that ``weft up`` writes, so that ``weft pub`` on the same machine needs no options."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weft.contexts import Context, read_contexts, write_contexts
from weft.node.protection import ClientFiles

DEFAULT: Final = "default"


def remember(path: Path, node_id: str, address: str, files: ClientFiles) -> str | None:
    """Write this node's context, or bring its address up to date. Returns what to tell people about it.

    Its name is ``default``, or the node's id if ``default`` belongs to a node whose certificates still exist. Only the
    first start makes a key, and writes it to the context. If both are lost, ``weft keys create`` makes another key.
    """
    contexts = read_contexts(path)
    root, identity = str(files.root.absolute()), str(files.identity.absolute())
    name, known = next(((each, one) for each, one in contexts.contexts.items() if one.tls_root == root), (None, None))
    if name is None or known is None:
        if files.key is None:
            return None
        name = node_id if DEFAULT in contexts.contexts and not _is_stale(contexts.contexts[DEFAULT]) else DEFAULT
    token = known.token if files.key is None and known is not None else files.key and files.key.reveal()
    fresh = Context((address,), False, token or None, root, identity, identity)
    if fresh == known:
        return None
    after = contexts.added(name, fresh)
    current = contexts.contexts.get(contexts.current or "")
    if current is not None and _is_stale(current):
        after = after.using(name)
    write_contexts(path, after)
    if known is not None:
        return None
    hint = "" if after.current == name else f" (the current one is {after.current}: weft context use {name})"
    if name in contexts.contexts:
        hint += f"; it replaces one whose certificates are gone: {contexts.contexts[name].tls_root}"
    return f"context {name} in {path} connects to this node{hint}"


def _is_stale(context: Context) -> bool:
    """The data directory of its node was removed, so the context is useless."""
    return context.tls_root is not None and not Path(context.tls_root).exists()
