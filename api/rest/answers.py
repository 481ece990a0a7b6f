"""How an answer is sent: JSON in the core's own shapes, and an ETag by revision where it can be asked again."""

import json
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import Request
from fastapi.responses import Response
from pydantic_core import PydanticSerializationError, to_json

if TYPE_CHECKING:
    from waygraph.api.rest.dependencies import Service
    from waygraph.registry.access.visibility import Caller

ANY = "*"
"""In place of tags (RFC 9110, 13.1.2): whichever there is."""
_VERSION = version("waygraph")


def as_json(shape: object, headers: dict[str, str] | None = None, *, media_type: str = "application/json") -> Response:
    return Response(encode_json(shape), media_type=media_type, headers=headers)


def encode_json(shape: object) -> bytes:
    """As JSON, in UTF-8."""
    try:
        return to_json(shape)  # a quarter of the time of `json`, which on a page of a list is much of all
    except PydanticSerializationError:  # half of a surrogate pair, which becomes a question mark, or a deep schema
        return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


async def unless_known(
    request: Request,
    service: "Service",
    caller: "Caller",
    shape: Callable[[], object],
    *,
    media_type: str = "",
    stamp: Callable[[], str] | None = None,
) -> Response:
    """304 if the caller has the answer of this revision, or any (`*`); else `shape` as JSON, with the revision's ETag.

    The revision is read before the answer is made: at worst an answer is newer than its tag. `stamp`: of an answer that
    tells more than a revision does.
    """
    tag = etag(await service.lanes.ask(stamp or (lambda: service.registry.stamp)), caller)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization, X-API-Key"}
    has = _tags(request.headers.get("if-none-match", ""))
    if tag in has:
        return Response(status_code=304, headers=headers)
    told = await service.lanes.ask(lambda: as_json(shape(), headers, media_type=media_type or "application/json"))
    # Whether there is any answer is known when it is made.
    return Response(status_code=304, headers=headers) if has == {ANY} else told


def etag(stamp: str, caller: "Caller") -> str:
    """Strong: of this revision, as whoever sees the same as the caller gets it from this version of Waygraph."""
    sees = "all"
    if "read" not in caller.scopes:
        sees = "nothing"
    elif caller.principal is not None:
        sees = "\n".join(("groups", *sorted(set(caller.principal.groups))))
    if "admin" in caller.scopes:
        sees += "\nadmin"
    return f'"{sha256("\x00".join((stamp, sees, _VERSION)).encode("utf-8", "surrogatepass")).hexdigest()[:32]}"'


def _tags(header: str) -> set[str]:
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
