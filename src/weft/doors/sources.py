"""Which addresses are one and the same caller."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def source_of(host: str) -> str:
    """Whom to count an address against: an IPv6 host has 2**64 addresses to come from, so its network."""
    if ":" not in host or "%" in host:  # the zone of an address means nothing on another machine
        return host
    try:
        address = ip_address(host)
    except ValueError:
        return host
    assert isinstance(address, IPv6Address), "it has a colon"
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64))
