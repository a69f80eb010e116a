"""A fact about secp256k1 that tests of signatures need."""

# Order of the group (SEC 2, 2.4.1). s and order - s both verify; only the lower one is to be taken.
SECP256K1_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
