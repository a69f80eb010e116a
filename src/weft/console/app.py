"""The routes of the console, and what stands behind them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, aclosing
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from importlib import resources
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from weft.console.asking import Asker, Asking
from weft.console.dead_letters import DeadLetterDesk, WantedEnd
from weft.console.events import EventBrowser, Search
from weft.console.guard import HEADERS, Guard, read_body_untrusted
from weft.console.history import INTERVAL_S, LagHistory
from weft.console.publishing import WantedEvent, publish
from weft.console.sessions import FEEDS_OF_SESSION_MAX, Session, Sessions
from weft.console.streaming import Feed, Snapshots, Tail, history_view, live
from weft.console.views import (
    View,
    group_view,
    keys_view,
    me_view,
    pipelines_view,
    recipients_view,
    streams_view,
    topics_view,
)
from weft.core.groups.names import parse_group
from weft.errors import PeerError, UsageError, WeftError
from weft.limits import KIB, MIB
from weft.model import Pattern, Topic, parse_pattern, parse_topic
from weft.model.key_value import right_to
from weft.model.pipeline_reports import PIPELINES_BUCKET, PipelineReport
from weft.port.access import Access
from weft.port.errors import Busy, QuotaUsedUp, ShuttingDown, TooLarge
from weft.security import NotAllowed, Refused, Unauthenticated
from weft.security.api_keys import KeyRecord
from weft.wire.mesh import mesh_pb2 as pb

SIGN_IN_BYTES_MAX: Final = 4 * KIB
PUBLISH_BYTES_MAX: Final = 3 * MIB  # of a request: an event of 2 MiB as base64
QUERY_CHARS_MAX: Final = 4 * KIB
TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
NO_STORE: Final = {"cache-control": "no-store"}
# The first that fits counts.
STATUSES: Final[tuple[tuple[type[WeftError], int], ...]] = (
    (Unauthenticated, 401),
    (NotAllowed, 403),
    (QuotaUsedUp, 403),
    (Refused, 403),
    (Busy, 503),
    (ShuttingDown, 503),
    (TooLarge, 413),
    (UsageError, 400),
    (PeerError, 502),
)

Answer = Callable[["ConsoleParts", Request, Asker], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """``session_s``: how long somebody stays signed in; ``idle_s``: how long without an open page."""

    session_s: float
    idle_s: float
    is_open: bool  # no keys: everybody may do everything
    has_tls: bool


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """What the console asks of a node that runs."""

    asking: Asking
    access: Access
    keys: Callable[[], Iterable[KeyRecord]]  # blocks
    topic_settings: Callable[[Topic], View]
    group_lags: Callable[[], Awaitable[Iterable[tuple[str, int, float]]]]  # of groups that read here
    pipelines: Callable[[], Iterable[PipelineReport]]


class Console:
    """Made when the admin server starts; ``attach`` follows when there is a node to show. Until then it says so."""

    def __init__(self, node_id: str, settings: ConsoleSettings) -> None:
        self.sessions = Sessions(settings.session_s, settings.idle_s)
        self.guard = Guard(node_id, self.sessions, settings.is_open, settings.has_tls, time.monotonic)
        self._is_open = settings.is_open
        self._parts: ConsoleParts | None = None
        self._why_not = "this node is starting"
        self._snapshots: Snapshots
        self._events: EventBrowser
        self._letters: DeadLetterDesk
        self._history = LagHistory()
        self._feeds: set[Feed] = set()
        self._looking: asyncio.Task[None] | None = None

    def attach(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self._snapshots = Snapshots(parts.asking, self._history)
        self._events = EventBrowser(parts.asking)
        self._letters = DeadLetterDesk(parts.asking.node)
        self._looking = asyncio.create_task(self._look(parts), name="weft-console")
        self._looking.add_done_callback(_tell_defect)

    async def close(self) -> None:
        """Tell the pages that the node stops, and sign everybody out. Later requests are told, too. May be called
        twice.
        """
        self._why_not = "this node is shutting down"
        for feed in list(self._feeds):
            feed.end(self._why_not)
        self.sessions.close_all()
        parts, self._parts = self._parts, None
        if parts is None:
            return
        assert self._looking is not None, "both are set together"
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)
        await self._snapshots.close()
        await parts.asking.close()

    async def _look(self, parts: ConsoleParts) -> None:
        """Remember how far behind groups are; end expired sessions, with everything they have open."""
        while True:
            self._history.add(time.time(), await parts.group_lags())
            self.sessions.end_old(time.monotonic())
            await asyncio.sleep(INTERVAL_S)

    # --- routes --------------------------------------------------------------------------------------------------

    def routes(self) -> list[Route]:
        answers: dict[str, Answer] = {
            "me": self._me,
            "topics": self._topics,
            "topic": self._topic,
            "events": self._search,
            "event": self._event,
            "explain": self._explain,
            "group": self._group,
            "dead": self._dead,
            "pipelines": self._pipelines,
            "keys": self._keys,
        }
        return [
            Route("/", partial(_page, name="index.html")),
            Route("/console/{name}", _page),
            Route("/api/sign-in", self._sign_in, methods=["POST"]),
            Route("/api/sign-out", self._sign_out, methods=["POST"]),
            Route("/api/publish", self._changing(self._publish), methods=["POST"]),
            Route("/api/dead", self._changing(self._end_letter), methods=["POST"]),
            Route("/api/live", self._streaming(self._live)),
            Route("/api/tail", self._streaming(self._tail)),
            *(Route(f"/api/{name}", self._answering(answer)) for name, answer in answers.items()),
        ]

    async def check_metrics(self, request: Request) -> None:
        """Raise WeftError unless the request comes with a key that may administer."""
        caller = await self.guard.admit_bearer(request, self._running().access)
        caller.check_admin("see the metrics")

    def _running(self) -> ConsoleParts:
        if self._parts is None:
            raise Busy(self._why_not)
        return self._parts

    def _answering(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            try:
                parts, _, asker = await self._admitted(request)
                return as_json(await answer(parts, request, asker))
            except WeftError as error:
                return refusal(error)

        return serve

    def _changing(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            try:
                self.guard.check_change(request)
            except WeftError as error:
                return refusal(error)
            return await self._answering(answer)(request)

        return serve

    async def _admitted(self, request: Request) -> tuple[ConsoleParts, Session, Asker]:
        if len(request.url.query) > QUERY_CHARS_MAX:
            raise TooLarge("the address is too long", limit=QUERY_CHARS_MAX)
        parts = self._running()
        session, caller = await self.guard.admit(request, parts.access)
        return parts, session, Asker(caller, session.key)

    # --- signing in ----------------------------------------------------------------------------------------------

    async def _sign_in(self, request: Request) -> Response:
        try:
            body = await read_body_untrusted(request, SIGN_IN_BYTES_MAX)
            wanted = _decoded_untrusted(body, SignIn)
            response = Response(status_code=204, headers=NO_STORE | HEADERS)
            await self.guard.sign_in(request, self._running().access, wanted.key, response)
            return response
        except WeftError as error:
            return refusal(error)

    async def _sign_out(self, request: Request) -> Response:
        response = Response(status_code=204, headers=NO_STORE | HEADERS)
        try:
            self.guard.check_change(request)
        except WeftError as error:
            return refusal(error)
        self.guard.sign_out(request, response)
        return response

    # --- answers -------------------------------------------------------------------------------------------------

    async def _me(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        return me_view(asker.caller) | {"node": parts.asking.node.node_id, "insecure": self._is_open}

    async def _topics(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        pattern = parse_pattern(request.query_params.get("pattern") or ">")
        wanted = pb.TopicsRequest(pattern=pattern, page=pb.Page(limit=0))
        return topics_view(await parts.asking.everywhere("Topics", wanted, asker))

    async def _topic(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        topic = parse_topic(request.query_params.get("topic", ""))
        asker.caller.check_subscribe(Pattern(topic))
        wanted = pb.PositionsRequest(pattern=topic, page=pb.Page(limit=0))
        streams = streams_view(await parts.asking.everywhere("Positions", wanted, asker))
        view: View = {"topic": topic, "streams": streams, "settings": parts.topic_settings(topic)}
        if asker.caller.acl.admin:
            asked = pb.ExplainRequest(topic=topic)
            view["recipients"] = recipients_view(await parts.asking.here("Explain", asked, asker))
        return view

    async def _search(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        return await self._events.search(Search.read_untrusted(request.query_params), asker)

    async def _event(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        return await self._events.one(request.query_params.get("id", ""), asker)

    async def _explain(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        query = request.query_params
        wanted = pb.ExplainRequest(topic=query.get("topic", ""), origin=query.get("origin", ""))
        return {"recipients": recipients_view(await parts.asking.here("Explain", wanted, asker))}

    async def _group(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        name = parse_group(request.query_params.get("group", ""))
        wanted = pb.GroupsRequest(group=name, page=pb.Page(limit=0))
        replies = await parts.asking.everywhere("Groups", wanted, asker)
        return group_view(replies, name) | {"history": history_view(self._history, name)}

    async def _dead(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        return await self._letters.letters(parse_group(request.query_params.get("group", "")), asker)

    async def _end_letter(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        wanted = _decoded_untrusted(await read_body_untrusted(request, SIGN_IN_BYTES_MAX), WantedEnd)
        await self._letters.end(wanted, asker, time.time_ns() // 1000, time.monotonic())
        return {}

    async def _pipelines(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        """What pipelines report about themselves, for callers that may read their bucket."""
        asker.caller.check_subscribe(Pattern(right_to(PIPELINES_BUCKET)))
        return pipelines_view(parts.pipelines(), time.time_ns() // 1000)

    async def _keys(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        asker.caller.check_admin("see the keys")
        return {"keys": keys_view(await asyncio.to_thread(lambda: list(parts.keys())))}

    async def _publish(self, parts: ConsoleParts, request: Request, asker: Asker) -> View:
        wanted = _decoded_untrusted(await read_body_untrusted(request, PUBLISH_BYTES_MAX), WantedEvent)
        receipt = await publish(parts.asking.node, asker.caller, wanted, time.time_ns() // 1000, time.monotonic())
        return {"id": str(receipt.first), "copies": receipt.copies}

    # --- what goes on for long -----------------------------------------------------------------------------------

    def _streaming(
        self, begin: Callable[[ConsoleParts, Request, Asker, Feed], AsyncGenerator[bytes, None]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            try:
                parts, session, asker = await self._admitted(request)
                if len(session.feeds) >= FEEDS_OF_SESSION_MAX:
                    raise Busy("too many live pages are open: close one", limit=FEEDS_OF_SESSION_MAX)
                feed = Feed(asyncio.Event())
                begun = begin(parts, request, asker, feed)
                watching = parts.access.watching(asker.caller, lambda error: feed.end(str(error)))
                content = self._fed(request, session, watching, feed, begun)
            except WeftError as error:
                return refusal(error)
            headers = NO_STORE | HEADERS | {"x-accel-buffering": "no"}
            return StreamingResponse(content, media_type="text/event-stream", headers=headers)

        return serve

    async def _fed(
        self,
        request: Request,
        session: Session,
        watching: AbstractContextManager[None],
        feed: Feed,
        content: AsyncGenerator[bytes, None],
    ) -> AsyncIterator[bytes]:
        """The content, as long as the session lasts and the key is valid."""
        connection = request.scope.get("state", {}).get("connection")
        async with aclosing(content):
            with watching, ExitStack() as stack:
                self._feeds.add(feed)
                stack.callback(self._feeds.discard, feed)
                session.feeds[feed] = partial(feed.end, "you were signed out")
                stack.callback(session.feeds.pop, feed, None)
                if connection is not None:
                    connection.begin_stream()
                async for part in content:
                    session.seen_s = time.monotonic()
                    if connection is not None:
                        connection.go_on()
                    yield part

    def _live(self, parts: ConsoleParts, request: Request, asker: Asker, feed: Feed) -> AsyncGenerator[bytes, None]:
        return live(feed, self._snapshots, asker)

    def _tail(self, parts: ConsoleParts, request: Request, asker: Asker, feed: Feed) -> AsyncGenerator[bytes, None]:
        search = Search.read_untrusted(request.query_params)
        asker.caller.check_subscribe(search.pattern)
        return Tail(parts.asking, asker, search.pattern, search.key).run(feed)


def _tell_defect(task: asyncio.Task[None]) -> None:
    """The task runs until it is cancelled, so log the error that ended it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "console", "exception": error, "task": task})


class SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str


# --- answers ---------------------------------------------------------------------------------------------------------


def as_json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, NO_STORE | HEADERS, "application/json")


def refusal(error: WeftError) -> Response:
    """The sentence that every client gets."""
    status = next((number for kind, number in STATUSES if isinstance(error, kind)), 500)
    return as_json({"error": str(error)}, status)


def _decoded_untrusted(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the request is not one that a page sends: {error}") from None


# --- files -----------------------------------------------------------------------------------------------------------


@cache
def static_files() -> dict[str, tuple[bytes, str, str]]:
    """All static files by name: content, type and tag. No other name leads to a file."""
    found: dict[str, tuple[bytes, str, str]] = {}
    for file in resources.files("weft.console").joinpath("static").iterdir():
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            found[file.name] = (content, f"{kind}; charset=utf-8", f'"{sha256(content).hexdigest()[:16]}"')
    return found


async def _page(request: Request, name: str | None = None) -> Response:
    found = static_files().get(name or request.path_params["name"])
    if found is None:
        return Response("there is no such page\n", 404, HEADERS, "text/plain")
    content, kind, tag = found
    headers = HEADERS | {"cache-control": "no-cache", "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, kind)
