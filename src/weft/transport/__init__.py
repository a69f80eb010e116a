"""Sockets: what the pure rooms decide is carried out here. One package per transport; ``addresses`` and ``backoff`` are
for all of them."""
