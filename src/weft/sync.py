"""``weft.sync.connect``: the SDK for programs without asyncio. See ``weft.client.blocking``."""

from weft.client.blocking import Client, Request, Subscription, connect

__all__ = ["Client", "Request", "Subscription", "connect"]
