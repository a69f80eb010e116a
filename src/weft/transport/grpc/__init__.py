"""gRPC on HTTP/2: ``calls`` (both ends of a call), ``server``, ``channel``."""
