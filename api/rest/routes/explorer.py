"""The explorer: pages for people at `/explore`, and who looks at them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route

from waygraph.api import web
from waygraph.api.rest.browser_sessions import (
    COOKIE,
    LOGIN_PATH,
    SESSION,
    BrowserSession,
    BrowserSessions,
    refuse_foreign,
    show_credential,
)
from waygraph.api.rest.issuer_login import begin_at_issuer, come_from_issuer
from waygraph.api.rest.problems import as_json
from waygraph.api.rest.requests import Strict
from waygraph.api.rest.service import CALLER_KEY, STRANGER, Service
from waygraph.registry.access.visibility import LOCAL, SCOPES, Caller
from waygraph.registry.model.clock import now
from waygraph.registry.model.errors import InvalidQuery, NotAllowed, NotAuthenticated, SourceError, WaygraphError
from waygraph.registry.model.files import PRIVATE, content_if_there, storage_errors, write_atomically, write_lock
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import Query
from waygraph.registry.model.shapes import Shape
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.operations.request import Id
from waygraph.registry.storage import export
from waygraph.registry.storage.location import is_server
from waygraph.registry.storage.store import MEMORY

HOME = "/explore"
CALLBACK = f"{HOME}/login/callback"
TARGET = "explorer"
"""Of logins, in the audit."""
WAY, WAY_S = "waygraph-way", 600
"""The cookie of a browser that is at the issuer."""
FILES = StaticFiles(directory=Path(web.__file__).parent)
EXPORT_FILES = {"drawing.js": StaticFiles(directory=Path(export.__file__).parent)}
"""Also of the exported map, beside which they stand."""
HEADERS = {
    "Cache-Control": "private, no-cache",
    # Only files of this service. Nothing of what the pages show can run, load or be sent elsewhere.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
}


def explorer_routes(service: Service, *, has_gateway: bool) -> list[Route]:
    sessions = BrowserPages(service, has_gateway=has_gateway)
    return [
        Route("/", open_home),
        Route(LOGIN_PATH, sessions.answer, methods=["GET", "POST", "DELETE"]),
        Route(f"{HOME}/requests", KeptRequests(service).answer, methods=["GET", "POST"]),
        Route(f"{HOME}/login", sessions.go_to_issuer),
        Route(CALLBACK, sessions.come_from_issuer),
        Route(f"{HOME}/files/{{file:path}}", read_file),
        Route(HOME, read_file),
        Route(f"{HOME}/{{path:path}}", read_file),
    ]


class BrowserPages:
    """Who looks at the pages: how they log in and out."""

    def __init__(self, service: Service, *, has_gateway: bool) -> None:
        self._service, self._has_gateway = service, has_gateway

    @property
    def _sessions(self) -> BrowserSessions:
        return self._service.sessions

    async def answer(self, request: Request) -> Response:
        """`GET`: who looks; `POST {"secret": …}`: they show a key or a token; `DELETE`: they log out."""
        steps = {"POST": self._log_in, "DELETE": self._log_out}
        return await steps.get(request.method, self._show)(request)

    async def _show(self, request: Request) -> Response:
        """A session that has ended, or is not this page's, is that of a stranger."""
        session: BrowserSession | None = request.scope.get(SESSION)
        if session and not session.is_marked(request):
            return self._as_json(STRANGER)
        try:
            return self._as_json(await self._service.caller_or_stranger(request))
        except (NotAuthenticated, NotAllowed):
            if not session:
                raise
            response = self._as_json(STRANGER)
            self._sessions.drop(response, request, COOKIE)
            return response

    async def _log_in(self, request: Request) -> Response:
        refuse_foreign(request)
        secret = ""
        if request.headers.get("content-type", "").partition(";")[0].strip() == "application/json":  # as no form sends
            with suppress(ValueError, TypeError, KeyError):
                secret = str(json.loads(await request.body())["secret"]).strip()
        return await self._let_in(request, self._sessions.redeem(secret, request.scope.get(SESSION)))

    async def _let_in(self, request: Request, secret: str, response: Response | None = None) -> Response:
        """Raises NotAuthenticated, NotAllowed for a key of a toolset, TooManyRequests."""
        headers = [each for each in request.scope["headers"] if each[0] not in (b"authorization", b"x-api-key")]
        scope = {**request.scope, "headers": headers, CALLER_KEY: None}
        show_credential(scope, secret)
        session = BrowserSession(secret=secret)
        try:
            caller = await self._service.caller(Request(scope))
        except WaygraphError as error:
            self._service.audit.record(STRANGER, "login", TARGET, "refused", error=type(error).__name__)
            raise
        with self._service.audit.attempt(caller, "login", TARGET):
            if response is None:
                response = self._as_json(caller, csrf=session.mark)
            else:  # a fragment is sent to no server
                response.headers["Location"] += f"#mark={session.mark}"
            self._sessions.put(response, request, COOKIE, asdict(session))
        return response

    async def _log_out(self, request: Request) -> Response:
        """The cookie goes. The key stays good: who is to use it no more revokes it."""
        with self._service.audit.attempt(await self._service.caller_or_stranger(request), "logout", TARGET):
            response = self._as_json(STRANGER)
            self._sessions.drop(response, request, COOKIE)
        return response

    def _as_json(self, caller: Caller, *, csrf: str = "") -> Response:
        asks, place = self._service.authenticator is not None, str(self._service.registry.location)
        return as_json(
            {
                "known": bool(caller.scopes) or not asks,
                "asks": asks,
                "local": caller is LOCAL,
                "name": caller.name or caller.id,
                "scopes": [scope for scope in SCOPES if scope in caller.scopes],
                "sees_all": caller.sees_everything,
                "csrf": csrf,
                "issuer": bool(self._service.settings.oidc_client_id and asks),
                "holds": is_server(place) or place == MEMORY or Path(place).exists(),
                "calls": self._service.settings.explorer_calls and self._has_gateway,
                "evaluates": find_spec("waygraph_lab") is not None,
            }
        )

    # -- by the operator's issuer --------------------------------------------------------------------

    async def go_to_issuer(self, request: Request) -> Response:
        if not self._service.settings.oidc_client_id:
            return await read_file(request)
        try:
            callback = f"{self._sessions.site(request)}{CALLBACK}"
            page, way = await begin_at_issuer(self._service, request, callback, SCOPES)
        except WaygraphError as error:
            return tell_refusal(error)
        response = RedirectResponse(page, 303)
        # The way back begins at another site, from where a browser brings no cookie that is strict.
        self._sessions.put(response, request, WAY, way, max_age=WAY_S, samesite="lax")
        return response

    async def come_from_issuer(self, request: Request) -> Response:
        try:
            callback = f"{self._sessions.site(request)}{CALLBACK}"
            way = self._sessions.read(request, WAY)
            token = await come_from_issuer(self._service, request, callback, way)
            response = await self._let_in(request, token, RedirectResponse(HOME, 303))
        except WaygraphError as error:
            return tell_refusal(error)
        self._sessions.drop(response, request, WAY)
        return response


class KeptRequest(Strict):
    """A request with the agents or tools any one of which is `right`, or with none: then no answer is. `forget`: it
    goes. Without a text nothing is kept, and only the figure is noted.
    """

    text: Annotated[str, Field(max_length=4_000)] = ""
    right: Annotated[tuple[Id, ...], Field(max_length=20)] = ()
    forget: bool = False


class KeptRequests:
    """The requests that operators keep, a dataset of `waygraph eval` in a folder that its owner alone may read; and how
    many of them were answered right over time.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def _folder(self) -> Path:
        place = str(self._service.registry.location)
        return self._service.settings.data_path / "requests" / f"{Path(place).stem}-{digest(place)[:8]}"

    async def answer(self, request: Request) -> Response:
        """`GET`: what is kept, and how each is answered now. `POST`: as `KeptRequest`, and the figure is noted."""
        caller = await self._service.caller(request)
        caller.require("admin")
        caller.require_everything("kept requests")
        entry = None
        if request.method == "POST":
            refuse_foreign(request)
            if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
                raise NotAllowed("a kept request is sent as application/json")  # as no form of another page sends
            try:
                entry = KeptRequest.model_validate_json(await request.body())
            except ValidationError as error:
                raise InvalidQuery(f"not a request that can be kept: {error.errors()[0]['msg']}") from None
        return as_json(await self._service.lanes.wait(partial(self._perform, entry)))

    def _perform(self, entry: KeptRequest | None) -> Shape:
        """Raises StorageFailed, InvalidQuery for more than `MOST_KEPT`."""
        if entry is None:
            return self._judge()
        with write_lock(self._folder / QUERIES, LOCK_S), storage_errors(self._folder):
            self._folder.chmod(0o700)
            if entry.text.strip():
                rows = [row for row in self._read(QUERIES) if row["text"] != entry.text]
                if not entry.forget:
                    agents, tools = {*map(owner_of, entry.right)}, {each for each in entry.right if "/" in each}
                    gold = {"gold": [sorted(agents)] * bool(agents), "gold_tools": [sorted(tools)] * bool(tools)}
                    rows.append({"id": digest(entry.text)[:12], "text": entry.text, **gold})
                if len(rows) > MOST_KEPT:
                    raise InvalidQuery(f"{MOST_KEPT} requests are kept already: forget some")
                self._write(QUERIES, rows)
                about = {"name": "kept requests", "registry": str(self._service.registry.location)}
                write_atomically(self._folder / "dataset.json", json.dumps(about).encode(), mode=PRIVATE)
            state = self._judge()
            figure = {"judged": len(state["requests"]), "right": sum(row["is_right"] for row in state["requests"])}
            last: Shape = next(reversed(state["runs"]), {})
            if state["requests"] and last | figure != last:
                state["runs"].append({"at": now(), **figure})
                self._write(RUNS, state["runs"][-MOST_KEPT:])
        return state

    def _judge(self) -> Shape:
        rows = [{**row, **self._first_answer(row["text"])} for row in self._read(QUERIES)]
        texts = {row["text"] for row in rows}
        others = [text for text in dict.fromkeys(self._other_texts()) if text not in texts]
        return {
            "folder": str(self._folder),
            "requests": [{**row, "is_right": _is_right(row)} for row in rows],
            "others": [{"text": text, **self._first_answer(text)} for text in others],
            "runs": list(self._read(RUNS)),
        }

    def _first_answer(self, text: str) -> Shape:
        """The first agent and its best tool; empty where nothing fits, or may not."""
        route = self._service.registry.route(Query(text=text, limit=1))
        if not route.matches or route.is_doubtful:
            return {"agent": "", "first": ""}
        [match] = route.matches
        return {"agent": match.agent.id, "first": match.tools[0].id if match.tools else match.agent.id}

    def _other_texts(self) -> Iterator[str]:
        """Requests that found nothing, where their texts are kept, and the questions that tools' sources state."""
        registry = self._service.registry
        with suppress(WaygraphError):  # usage that cannot be read is no fault of what is kept
            yield from (each.text for each in registry.operator.search_gaps().requests)
        yield from islice(chain.from_iterable(tool.questions for tool in registry.tools(limit=MOST_TOOLS)), MOST_OTHERS)

    def _read(self, name: str) -> list[dict[str, Any]]:
        """Raises SourceError for a line that cannot be judged: a person may have written it."""
        rows = list[dict[str, Any]]()
        try:
            for line in (content_if_there(self._folder / name) or b"").splitlines():
                row = json.loads(line)
                if name == QUERIES:
                    _is_right({**row, "agent": "", "first": str.strip(row["text"])})
                rows.append(row)
        except (ValueError, TypeError, LookupError) as error:
            where = f"{self._folder / name}:{len(rows) + 1}"
            raise SourceError(where, "is no query of a dataset; mend or remove it") from error
        return rows

    def _write(self, name: str, rows: Iterable[Mapping[str, object]]) -> None:
        content = "".join(f"{json.dumps(row, ensure_ascii=True)}\n" for row in rows)
        write_atomically(self._folder / name, content.encode(), mode=PRIVATE)


QUERIES, RUNS = "queries.jsonl", "runs.jsonl"
MOST_KEPT, MOST_OTHERS, MOST_TOOLS, LOCK_S = 500, 100, 1_000, 10.0


def _is_right(row: Mapping[str, Any]) -> bool:
    """Of a line that a person may have written: `gold` and `gold_tools` may be missing."""
    if tools := {*chain(*row.get("gold_tools") or ())}:
        return row["first"] in tools
    agents = {*chain(*row.get("gold") or ())}
    return row["agent"] in agents if agents else not row["first"]


def tell_refusal(error: WaygraphError) -> Response:
    """A person waits for a page: it shows why they are not let in, to a tab that had left for the issuer."""
    return RedirectResponse(f"{HOME}#refused={quote(str(error), safe='')}", 303)


async def open_home(request: Request) -> Response:
    """Leads a browser to the pages; others find nothing here."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    return RedirectResponse(HOME, 307)


async def read_file(request: Request) -> Response:
    """Or the one document of every page, whose modules read the address. A browser that has it asks with its ETag and
    gets 304.
    """
    path = request.path_params.get("file", "index.html")
    if path.endswith((".py", ".pyc")):
        raise HTTPException(404)
    response = await EXPORT_FILES.get(path, FILES).get_response(path, request.scope)
    response.headers.update(HEADERS)
    return response
