"""A small Iceberg REST catalog on top of pyiceberg's SQL catalog: what tables need of the protocol, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import uvicorn
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.table import CommitTableRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.transport.held_port import held_port

START_TIMEOUT_S = 60.0


class RestCatalog:
    """The handlers. They are called one at a time."""

    def __init__(self, catalog: SqlCatalog, token: str) -> None:
        self._catalog = catalog
        self._token = token

    def app(self) -> Starlette:
        tables = "/v1/namespaces/{namespace}/tables"
        return Starlette(
            routes=[
                Route("/v1/config", self._guarded(self._config)),
                Route("/v1/namespaces", self._guarded(self._create_namespace), methods=["POST"]),
                Route(tables, self._guarded(self._create), methods=["POST"]),
                Route(tables + "/{table}", self._guarded(self._load), methods=["GET", "HEAD"]),
                Route(tables + "/{table}", self._guarded(self._commit), methods=["POST"]),
            ]
        )

    def _guarded(self, handler: Any) -> Any:
        async def guarded(request: Request) -> Response:
            if request.headers.get("authorization") != f"Bearer {self._token}":
                return _error(401, "NotAuthorizedException", "who are you?")
            found: Response = await handler(request)
            return found

        return guarded

    async def _config(self, _: Request) -> Response:
        return JSONResponse({"defaults": {}, "overrides": {}})

    async def _create_namespace(self, request: Request) -> Response:
        wanted = await request.json()
        try:
            self._catalog.create_namespace(tuple(wanted["namespace"]))
        except NamespaceAlreadyExistsError as error:
            return _error(409, "AlreadyExistsException", str(error))
        return JSONResponse({"namespace": wanted["namespace"], "properties": {}})

    async def _create(self, request: Request) -> Response:
        wanted = CreateTableRequest.model_validate({"location": None} | await request.json())
        assert wanted.stage_create, "tables come to be by transactions"
        assert wanted.partition_spec is not None and wanted.write_order is not None
        staged = self._catalog._create_staged_table(
            (request.path_params["namespace"], wanted.name),
            wanted.table_schema,
            wanted.location,
            wanted.partition_spec,
            wanted.write_order,
            wanted.properties,
        )
        return _table(staged)

    async def _load(self, request: Request) -> Response:
        try:
            return _table(self._catalog.load_table((request.path_params["namespace"], request.path_params["table"])))
        except NoSuchTableError as error:
            return _error(404, "NoSuchTableException", str(error))

    async def _commit(self, request: Request) -> Response:
        wanted = CommitTableRequest.model_validate_json(await request.body())
        name = (request.path_params["namespace"], request.path_params["table"])
        table: Any = SimpleNamespace(name=lambda: name)
        try:
            done = self._catalog.commit_table(table, wanted.requirements, wanted.updates)
        except CommitFailedException as error:
            return _error(409, "CommitFailedException", str(error))
        return Response(done.model_dump_json(by_alias=True), media_type="application/json")


def _table(found: Any) -> Response:
    metadata = found.metadata.model_dump_json(by_alias=True)
    location = f'"{found.metadata_location}"'
    return Response(
        f'{{"metadata-location": {location}, "metadata": {metadata}, "config": {{}}}}', media_type="application/json"
    )


def _error(status: int, kind: str, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": kind, "code": status}}, status)


@contextmanager
def serving(catalog: SqlCatalog, token: str) -> Iterator[str]:
    """Its address."""
    with held_port() as port:
        config = uvicorn.Config(RestCatalog(catalog, token).app(), "127.0.0.1", port, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            _wait(server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(START_TIMEOUT_S)


def _wait(server: uvicorn.Server) -> None:
    done = threading.Event()
    for _ in range(int(START_TIMEOUT_S / 0.02)):
        if server.started:
            return
        done.wait(0.02)
    raise AssertionError("the catalog does not start")
