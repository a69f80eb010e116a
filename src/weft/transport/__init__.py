"""Sockets: the packages here do the I/O that the pure packages (``weft.wire`` and others) decide on. There is one
package per transport; all of them use ``addresses`` and ``backoff``."""
