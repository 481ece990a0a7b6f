"""A document over HTTP: within limits of size, time and redirects, with no header sent where it was not meant for.

A person names an address on their own machine, and may mean one of their own network; a redirect from there to another
origin leads to public addresses only.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx2

from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.manifest.transport import references_only
from waygraph.ingest.sources.formats import catalogue
from waygraph.ingest.sources.formats.a2a_card import card_urls
from waygraph.ingest.sources.kinds import UnknownShape
from waygraph.ingest.sources.parse import SUFFIXES
from waygraph.ingest.sources.read import Listing, Parts, Reading, read_parts
from waygraph.registry.http.addresses import Reach, split_url
from waygraph.registry.http.client import UnusableProxy, connection_fault, decode_body, http_client, same_origin
from waygraph.registry.http.guard import Guard, NotPublic
from waygraph.registry.model.errors import SourceError, UpstreamRefused
from waygraph.registry.model.identity import agent_id
from waygraph.registry.model.process import run_whole
from waygraph.registry.model.settings import Settings

MAX_REDIRECTS = 5
TIMEOUT_S = 30.0
"""For each part of an answer; `fetch_total_s` is for the whole document."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PASSING = frozenset({429, 500, 502, 503, 504})
_BROKEN_ERRORS = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
_ACCEPT = "application/json, application/yaml;q=0.9, */*;q=0.5"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class FetchFailed(SourceError):
    """An address that gave no document. `status`: of the last answer; 0 if none came. `may_pass`: it may give one
    later; `retry_after`: the header that says when.
    """

    def __init__(
        self, where: str, reason: str, *, status: int = 0, may_pass: bool = False, retry_after: str | None = None
    ) -> None:
        self.status, self.may_pass, self.retry_after = status, may_pass or status in _PASSING, retry_after
        super().__init__(where, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`address`: where it came from at the end of all redirects, without secrets."""

    address: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetching:
    """How addresses are asked. `headers` go to the origin that was named, and to no other.

    `beyond`: how far another origin must be, to which a redirect leads.
    """

    settings: Settings
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    beyond: Reach = Reach.INTERNET


def address_of(url: str) -> str:
    """An address as it may be shown: no login, names of its query but no values. Raises SourceError for none."""
    try:
        location = httpx2.URL(url)
        printable = str(references_only({"url": str(location)})["url"])
    except (httpx2.InvalidURL, ValueError):
        raise SourceError("URL", "cannot be read as an address") from None  # the error's text may hold a login
    if location.scheme not in {"http", "https"} or not location.host or split_url(url) is None:
        raise SourceError("URL", "expected an address such as https://host/path")
    return printable


def fetch(url: str, how: Fetching) -> Page:
    """The document at an address. Raises FetchFailed, whose text holds no login, header or query value."""
    where = address_of(url)
    # The library's own error would quote the value.
    for name, value in how.headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise SourceError("headers", "a header's name has letters, digits and dashes")
        if not _HEADER_VALUE.fullmatch(value):
            raise SourceError("headers", f"the value of {name} holds characters that no header may")
    most_s = how.settings.fetch_total_s
    try:
        return run_whole(lambda: asyncio.wait_for(_Fetch(how, where).page(httpx2.URL(url)), most_s))
    except TimeoutError:
        raise FetchFailed(where, f"did not end within {most_s:g} s (WAYGRAPH_FETCH_TOTAL_S)") from None


@dataclass(slots=True)
class _Fetch:
    how: Fetching
    where: str

    async def page(self, url: httpx2.URL) -> Page:
        headers = dict(self.how.headers)
        async with self._client(Guard(url)) as client, self._client(Guard(beyond=self.how.beyond)) as beyond:
            current = client
            for _ in range(MAX_REDIRECTS + 1):
                answer = await self._ask_once(current, current.build_request("GET", url, headers=headers), url)
                if isinstance(answer, Page):
                    return answer
                if not same_origin(url, answer):
                    headers, current = {}, beyond  # for good: what is elsewhere does not lead back inside
                url = answer
        raise self._fetch_error(f"redirects more than {MAX_REDIRECTS} times")

    def _client(self, guard: Guard) -> httpx2.AsyncClient:
        try:
            return http_client(
                httpx2.AsyncClient,
                guard=guard,
                headers={"Accept": _ACCEPT, "Accept-Encoding": "gzip"},
                timeout=TIMEOUT_S,
                follow_redirects=False,
            )
        except UnusableProxy as exc:
            raise self._fetch_error(str(exc)) from exc

    async def _ask_once(
        self, client: httpx2.AsyncClient, request: httpx2.Request, url: httpx2.URL
    ) -> Page | httpx2.URL:
        """The document, or where to ask next."""
        try:
            response = await client.send(request, stream=True)
            try:
                return await self._answer(response, url)
            finally:
                await response.aclose()
        except NotPublic as exc:
            raise self._fetch_error(f"is of a host that may not be asked from here: {exc.why}") from None
        except UpstreamRefused:
            raise self._fetch_error("has a host whose name cannot be resolved") from None
        except httpx2.TimeoutException:
            raise self._fetch_error(f"did not answer within {TIMEOUT_S:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
            reason = connection_fault(exc) or f"cannot be asked ({type(exc).__name__})"
            raise self._fetch_error(reason, may_pass=isinstance(exc, _BROKEN_ERRORS)) from None

    async def _answer(self, response: httpx2.Response, url: httpx2.URL) -> Page | httpx2.URL:
        if (status := response.status_code) in _REDIRECTS and "location" in response.headers:
            return self._next(url, response.headers["location"])
        if status != HTTPStatus.OK:
            phrase = f" ({HTTPStatus(status).phrase})" if status in set(HTTPStatus) else ""
            retry_after = response.headers.get("retry-after")
            raise self._fetch_error(f"answers {status}{phrase}", status=status, retry_after=retry_after)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            raise self._fetch_error("answers with a stream of events, which is no document", status=status)
        if (content := await self._content(response)).lstrip()[:1] == b"<":
            raise self._fetch_error("answers with a web page, which is no document", status=status)
        return Page(address=address_of(str(url)), content=content)

    def _next(self, url: httpx2.URL, location: str) -> httpx2.URL:
        try:
            following = url.join(location)
            following = following.copy_with(userinfo=url.userinfo if same_origin(url, following) else b"")
        except httpx2.InvalidURL:
            raise self._fetch_error("redirects to what is no address") from None
        if following.scheme not in {"http", "https"} or not following.host:
            raise self._fetch_error("redirects to what is no address of the web")
        if url.scheme == "https" and following.scheme == "http":
            raise self._fetch_error("redirects from https to http, which is not followed")
        self.where = f"{self.where} → {address_of(str(following))}"
        return following

    async def _content(self, response: httpx2.Response) -> bytes:
        """The body, unpacked, as far as `max_source_bytes` allow."""
        decode_body(response)
        most, content = self.how.settings.max_source_bytes, bytearray()
        async for part in response.aiter_raw():
            content += part
            if len(content) > most:
                raise self._fetch_error(f"has more than the {most} bytes that are read (WAYGRAPH_MAX_SOURCE_BYTES)")
        return bytes(content)

    def _fetch_error(self, reason: str, **facts: Any) -> FetchFailed:
        return FetchFailed(self.where, reason, **facts)


# A document by its address: one source, whatever its content turns out to be.
#
# Of an address that gives no document the card is looked for, as an A2A agent has it. What was fetched is somebody
# else's: no command in it is started, and no variable of ours is put into it.


CARD_KIND = "a2a-card"
_REFUSING = frozenset({401, 403, 407, 429})
"""What says nothing of whether a document is there."""


class OfOthers(SourceError):
    """A document that speaks in the names of sources that are none of its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebDocument:
    """Made by `open_document`, which checks the address."""

    url: str
    name: str
    namespace: str
    how: Fetching
    reading: Reading

    def __repr__(self) -> str:
        return f"WebDocument({self.name!r})"

    def read(self) -> Manifest:
        """Asks anew. Raises SourceError; FetchFailed if there is no document."""
        return self.parts().manifest

    def parts(self) -> Parts:
        """What the document says, or the card where that is to be found instead; read without trust.

        Raises what the document itself met, if there is no card either; OfOthers for an export, unless a person calls
        it one.
        """
        all_parts = self._first()
        if len(all_parts) != 1 or (
            all_parts[0].manifest.source != self.name and self.reading.kind != catalogue.EXPORT_KIND
        ):
            raise OfOthers(self.name, f"is an export of {len(all_parts)} sources: fetch it, and ingest the file")
        return all_parts[0]

    def _first(self) -> list[Parts]:
        # The address itself, then each place for a card under it.
        places = () if urlsplit(self.url).path.lower().endswith(SUFFIXES) else card_urls(self.url)
        itself = () if places and self.reading.kind == CARD_KIND else (self.url,)
        errors: list[SourceError] = []
        for url in (*itself, *places):
            try:
                return read_parts(self._listing(url), self.reading)
            except (FetchFailed, UnknownShape) as error:
                errors.append(error)
                if isinstance(error, FetchFailed) and error.status in (0, *_REFUSING):
                    break
        raise errors[0]

    def _listing(self, url: str) -> Listing:
        def content(most_bytes: int) -> bytes:
            return fetch(url, self.how).content[:most_bytes]

        # Without the query, so that the path's end can say what it is.
        return Listing(files=[(address_of(url).partition("?")[0], content)], source=self.name, namespace=self.namespace)


def open_document(url: str, how: Fetching, reading: Reading, *, source: str = "", namespace: str = "") -> WebDocument:
    """`source` empty: the address without its secrets. Raises SourceError for what is no address of the web."""
    name = source or address_of(url)
    space = namespace or agent_id(urlsplit(url).hostname or "source")
    untrusting = replace(reading, ask=None, surroundings=Surroundings())
    return WebDocument(url=url, name=name, namespace=space, how=how, reading=untrusting)
