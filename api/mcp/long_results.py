"""Results that fit a model's context: what is over the limit stays here, and the model reads it page by page.

Nothing is cut silently. A result that was cut ends with a text that names each missing part, by its JSON pointer in
the whole result. It also says where the rest is read: by `use_tool`, or as a resource.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Any, Literal
from urllib.parse import parse_qs, quote, urlsplit

from cachetools import TTLCache

from waygraph.api.mcp import USE_TOOL
from waygraph.api.mcp.protocol import mend_item
from waygraph.api.mcp.results import WHOSE, attribute_result, compact, mark_imitation
from waygraph.api.mcp.sessions import Asker
from waygraph.ingest.execution.call import text
from waygraph.ingest.manifest.fields import fields_of, items_of, pointer
from waygraph.registry.model.arguments import Mending
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.numbers import read_digits
from waygraph.registry.model.settings import BYTES_PER_TOKEN

RESULTS = "waygraph://results/"
"""How the address of every kept result begins."""
PAGE_TYPE = "text/plain"
"""Of a page: a part of JSON, or a text, and what else there is."""
KEPT_S = 1_800.0
"""After that the rest of a result is gone."""
MAX_PARTS = 10
"""So many missing parts are named; of the others the number."""
LEAST_BYTES = 256
"""Less of a value is not worth a part of its own."""
MAX_LEVELS = 32
"""Of values within values that are cut; of a deeper one nothing is sent, until its own path is read."""

type Reader = Literal["host", "model", "program"]
"""Who gets a result: a host of MCP, which can read what was cut; a model behind a program; the program itself."""
MENDINGS = "waygraph/mended"
"""In `_meta`: which arguments were read as another type."""
type Unit = Literal["characters", "items", "members"]
_UNITS: Mapping[type, Unit] = {str: "characters", list: "items", dict: "members"}


@dataclass(frozen=True, slots=True)
class Part:
    """What was sent of the value at `path`, a JSON pointer: `kept` of its `of` units, from `start` on."""

    path: str
    start: int
    kept: int
    of: int
    unit: Unit


type Cut = tuple[Any, list[Part]]


@dataclass(frozen=True, slots=True)
class _StoredResult:
    owner: tuple[str, str]
    result: Mapping[str, Any]
    size: int


class LongResults:
    """The results that were cut, until they are old or `most_bytes` of later ones took their place.

    `limit_tokens` 0: nothing is cut. `most_bytes` 0: nothing is kept. `run_by`: the meta-tool that reads a rest; empty:
    there is none.
    """

    def __init__(self, limit_tokens: int, most_bytes: int, run_by: str = USE_TOOL) -> None:
        self._limit_tokens, self._most_bytes, self._run_by = limit_tokens, most_bytes, run_by
        self._kept: TTLCache[str, _StoredResult] = TTLCache(
            maxsize=most_bytes, ttl=KEPT_S, getsizeof=lambda kept: kept.size
        )

    def hand_on(
        self,
        result: Mapping[str, Any],
        tool_id: str,
        asker: Asker,
        *,
        reader: Reader = "host",
        mendings: Sequence[Mending] = (),
    ) -> Mapping[str, Any]:
        """An agent's result as every door hands it on: with whose it is, and for a model within the limit."""
        answer = attribute_result(result, tool_id, whole=reader == "program")
        if reader != "program":
            answer = self.fit(answer, asker if reader == "host" else None)
        if not mendings:
            return answer
        changes = [{"path": path, "given": was, "sent": now} for path, was, now in mendings]
        note = [text(compact({"mended": changes}))] if reader != "program" else []
        content, meta = answer.get("content", []), fields_of(answer.get("_meta"))
        return {**answer, "content": [*content, *note] if note else content, "_meta": {**meta, MENDINGS: changes}}

    def fit(self, result: Mapping[str, Any], asker: Asker | None) -> Mapping[str, Any]:
        """The result within the limit: its structured content, and all else that is sent but images and sounds.

        `asker` None: what is cut is not kept.
        """
        most = self._limit_tokens * BYTES_PER_TOKEN
        blocks = items_of(result.get("content"))
        beside = {name: value for name, value in result.items() if value is not blocks and name != "structuredContent"}
        needed = max(sum(map(_text_bytes, blocks)) + json_bytes(beside), json_bytes(result.get("structuredContent")))
        if not most or needed <= most:
            return result
        address = self._keep(result, asker) if asker else ""
        answer, parts = _cut_beside(beside, most // 4)
        sent, missing = _cut_blocks(blocks, most - json_bytes(answer))
        parts += missing
        if "structuredContent" in result:
            answer["structuredContent"], missing = cut(result["structuredContent"], most, "/structuredContent")
            parts += missing
        total = f"this result has about {needed // BYTES_PER_TOKEN:,} tokens, and a call returns {self._limit_tokens:,}"
        answer["content"] = [*sent, text(compact({"cut": {"why": total} | _missing(address, parts, self._run_by)}))]
        if address:
            link = {"type": "resource_link", "uri": address, "name": "the whole result", "mimeType": PAGE_TYPE}
            answer["content"].append(link)
        return answer

    def read(self, uri: str, asker: Asker) -> list[str]:
        """A page of a kept result: a text or JSON, then, if more is missing, what and where. Raises UnknownName."""
        asker.caller.require("use")
        address, query = uri.partition("?")[0], parse_qs(urlsplit(uri).query)
        kept = self._kept.get(address)
        if kept is None or kept.owner != (asker.caller.id, asker.owner):
            raise UnknownName("result", uri[:200], (), hint=f"Results are kept for {KEPT_S / 60:.0f} minutes.")
        path, start = query.get("path", [""])[0], read_digits(query.get("from", ["0"])[0])
        value = _value_at(kept.result, path)
        if value is _ABSENT or start is None:
            raise UnknownName("part of a result", uri[:200], ())
        page, parts = cut(value, self._limit_tokens * BYTES_PER_TOKEN, path, start)
        words = mark_imitation(page if isinstance(page, str) else compact(page), "")
        return [words, compact({"cut": _missing(address, parts, self._run_by)})] if parts else [words]

    def _keep(self, result: Mapping[str, Any], asker: Asker) -> str:
        """Its address; empty if it is too large to be kept."""
        size = json_bytes(result)
        if size > self._most_bytes:
            return ""
        address = RESULTS + secrets.token_urlsafe(16)
        self._kept[address] = _StoredResult((asker.caller.id, asker.owner), result, size)
        return address


def cut(value: Any, most: int, path: str = "", start: int = 0, level: int = 0) -> Cut:
    """As much of the value, from `start` on, as has `most` bytes as JSON, and which parts of it are missing.

    A text is cut at a character, an array at an item, an object by sharing the bytes among its members.
    """
    if (not start and json_bytes(value) <= most) or not isinstance(value, (str, list, dict)):
        return value, []
    if level > MAX_LEVELS:
        return type(value)(), [Part(path, start, 0, len(value), _UNITS[type(value)])]
    if isinstance(value, str):
        return _cut_text(value, most, path, start)
    if isinstance(value, list):
        return _cut_items(value, most, path, start, level)
    return _cut_members(value, most, path, start, level)


def _cut_text(value: str, most: int, path: str, start: int) -> Cut:
    piece = value[start : start + most]  # no character has less than a byte
    low, high = 1, len(piece)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if json_bytes(piece[:middle]) <= most else (low, middle - 1)
    return _of_whole(value, piece[:low], path, start, [])


def _cut_items(value: list[Any], most: int, path: str, start: int, level: int) -> Cut:
    rest = value[start : start + most]
    sizes = accumulate((json_bytes(item) + 1 for item in rest), initial=2)
    kept = rest[: sum(1 for _ in takewhile(lambda size: size <= most, sizes)) - 1]
    parts: list[Part] = []
    if rest and not kept:
        piece, parts = cut(rest[0], max(most - 3, LEAST_BYTES), f"{path}/{start}", level=level + 1)
        kept = [piece]
    return _of_whole(value, kept, path, start, parts)


def _cut_members(value: dict[str, Any], most: int, path: str, start: int, level: int) -> Cut:
    names = list(value)[start : start + most]
    heads = {name: json_bytes(name) + 2 for name in names}
    sizes = {name: json_bytes(value[name]) for name in names}
    least = accumulate((heads[name] + min(sizes[name], LEAST_BYTES) for name in names), initial=2)
    names = names[: sum(1 for _ in takewhile(lambda size: size <= most, least)) - 1]
    if not names:  # no page could hold a member of such a name: it is passed over
        return {}, [Part(path, start + 1, 0, len(value), "members")] if start < len(value) else []
    share = _share([sizes[name] for name in names], most - 2 - sum(heads[name] for name in names))
    kept: dict[str, Any] = {}
    parts: list[Part] = []
    for name in names:
        kept[name], missing = cut(value[name], share, path + pointer(name), level=level + 1)
        parts += missing
    return _of_whole(value, kept, path, start, parts)


def _share(sizes: Sequence[int], most: int) -> int:
    """How much each may have at most, so that all of it fits: the small ones need less than their share."""
    left = most
    for at, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - at) > left:
            return left // (len(sizes) - at)
        left -= size
    return most


def _of_whole(whole: Any, kept: Any, path: str, start: int, parts: list[Part]) -> Cut:
    if start + len(kept) < len(whole):
        parts = [*parts, Part(path, start, len(kept), len(whole), _UNITS[type(whole)])]
    return kept, parts


def _cut_blocks(blocks: Sequence[Any], most: int) -> tuple[list[Any], list[Part]]:
    """The first blocks; of the one that does not fit a piece, if it is a text. Images and sounds are as they are."""
    sent: list[Any] = []
    parts: list[Part] = []
    left = most
    for at, block in enumerate(blocks):
        needs = _text_bytes(block)
        if needs > left:
            if left >= LEAST_BYTES and isinstance(block, dict) and block.get("type") in ("text", "resource"):
                piece, parts = cut(block, left, f"/content/{at}")
                sent += [piece] if mend_item("tools/call", "content", piece) is piece else []
            break
        sent.append(block)
        left -= needs
    if len(sent) < len(blocks):
        parts.append(Part("/content", 0, len(sent), len(blocks), "items"))
    return sent, parts


def _cut_beside(beside: Mapping[str, Any], most: int) -> tuple[dict[str, Any], list[Part]]:
    """What a result has beside its content, the smallest first, as far as it fits; no member is cut.

    Every result says whether it is an error, and whose.
    """
    meta = beside.get("_meta")
    kept = {name: beside[name] for name in ("isError",) if name in beside}
    kept |= {"_meta": {WHOSE: meta[WHOSE]}} if isinstance(meta, Mapping) and WHOSE in meta else {}
    parts: list[Part] = []
    left = most
    others = [name for name, value in beside.items() if kept.get(name) != value]
    for name in sorted(others, key=lambda name: (json_bytes(beside[name]), name)):
        value = beside[name]
        needs = json_bytes(name) + json_bytes(value) + 2
        if needs <= left:
            kept[name] = value
            left -= needs
        elif isinstance(value, (str, list, dict)) and len(name) <= LEAST_BYTES:
            parts.append(Part(pointer(name), 0, 0, len(value), _UNITS[type(value)]))
    return kept, parts


def _text_bytes(block: Any) -> int:
    """What a block takes of the context as text: all but the bytes of an image, a sound or a file."""
    if not isinstance(block, dict):
        return json_bytes(block)
    if block.get("type") in ("image", "audio"):
        return json_bytes({**block, "data": ""})
    resource = block.get("resource")
    if isinstance(resource, dict) and isinstance(resource.get("blob"), str):
        return json_bytes({**block, "resource": {**resource, "blob": ""}})
    return json_bytes(block)


def _missing(address: str, parts: Sequence[Part], run_by: str) -> dict[str, Any]:
    """What a model learns of the missing parts. `address` empty: the rest is nowhere."""
    entries = []
    for part in parts[:MAX_PARTS]:
        end = part.start + part.kept
        entry = {"path": part.path, "sent": f"{part.unit} {part.start} to {end} of {part.of}"}
        rest = f"{address}?path={quote(part.path, safe='/')}&from={end}"
        entries.append(entry | ({"rest": rest} if address else {}))
    answer: dict[str, Any] = {"parts": entries}
    if len(parts) > MAX_PARTS:
        answer["more_parts"] = len(parts) - MAX_PARTS
    if not address:
        return answer | {"how": "the rest was not kept: ask the tool for less"}
    how = f"{run_by}(name=…) with the address of a rest" if run_by else "reading the resource"
    return answer | {"how": f"{how} returns it"}


_ABSENT = object()


def _value_at(value: Any, path: str) -> Any:
    """The value at a JSON pointer (RFC 6901)."""
    for step in path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name, _ABSENT)
        elif isinstance(value, list) and (at := read_digits(name, most=len(value) - 1)) is not None:
            value = value[at]
        else:
            return _ABSENT
    return value


def json_bytes(value: Any) -> int:
    return len(compact(value).encode("utf-8", "surrogatepass"))
