"""Sockets: this room carries out what the pure rooms decide. There is one package per transport; all of them use
``addresses`` and ``backoff``."""
