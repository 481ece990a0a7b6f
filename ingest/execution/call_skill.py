"""A skill that is called gives its text, the SKILL.md, to the model that is to follow it; a host that reads it gets any
of its files. Its scripts are not run.

What is read comes from the folder that a person on this machine ingested (`manifest.trust_store`), or from the server
that listed the skill, and is given only if it is the very file that was ingested, by its digest: so neither a link nor
a name leads to another file, and what was changed is looked at before a model follows it.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from mimetypes import guess_type
from pathlib import Path, PurePosixPath
from typing import Any

from anyio import to_thread

from waygraph.ingest.execution.call import ToolCall, ToolCaller, text
from waygraph.ingest.execution.services import claims_on, places_vouched_for
from waygraph.ingest.manifest.fields import fields_of, items_of, text_of
from waygraph.ingest.manifest.trust_store import VouchedFile
from waygraph.ingest.sources.parse import SKILL_FILE, digest_of, is_skill
from waygraph.ingest.sources.read import list_path
from waygraph.ingest.upstream.connection import CALL, Result
from waygraph.registry.model.changes import plain_key
from waygraph.registry.model.errors import NotCallable, SourceError, UnknownName
from waygraph.registry.model.nouns import Agent, Tool, parse_field
from waygraph.registry.storage.local_registry import LocalRegistry

MOST_CHARS = 100_000
"""Of a text that is given to a model."""
INGEST_AGAIN = "is another than was ingested, or cannot be read: look at it, and run `waygraph ingest` again"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTexts:
    """A ToolCaller for agents of the kind `skill`. Which of its tools is called only says what is told of scripts; of
    another method than CALL `uri` is the path of a file.
    """

    registry: LocalRegistry
    trust_file: VouchedFile
    servers: ToolCaller

    async def call(self, call: ToolCall) -> Result:
        """As `ToolCaller.call`. Raises UnknownName for a file that the skill does not have."""
        transport = fields_of(parse_field(call.agent.transport))
        files = fields_of(transport.get("files"))
        path = text_of(call.arguments.get("uri")) if call.method != CALL else skill_file(files)
        if path not in files and call.method != CALL:
            raise UnknownName("resource", path, ())
        if "server" in transport:
            content, place = await self._fetch(call, transport, path), f"the server {transport['server']!r}"
        else:
            folder = await to_thread.run_sync(self._folder, call, transport, files)
            content, place = await to_thread.run_sync(_content, folder / path, folder, files[path]), str(folder)
        if content is None or digest_of(content) != files.get(path):
            raise NotCallable(call.name, f"its file {path or SKILL_FILE} {INGEST_AGAIN}")
        if call.method != CALL:
            return {"contents": [_resource(path, content)]}
        words = content.decode("utf-8-sig", "replace")
        rest = len(words) - MOST_CHARS
        more = f"\n\n… ({rest} more characters stand in the file)" if rest > 0 else ""
        return {"content": [text(f"{words[:MOST_CHARS]}{more}"), text(_of_scripts(place, call.tool))]}

    def _folder(self, call: ToolCall, transport: Mapping[str, Any], files: Mapping[str, Any]) -> Path:
        """Where the skill lies as it was ingested. Raises NotCallable."""
        places = places_vouched_for(self.trust_file, claims_on(self.registry, call.agent.id))
        name, is_there = text_of(transport.get("folder")), False
        for file in (file for place in places for file in _skills(place)):
            if (folder := file.absolute().parent).name == name:
                is_there = True
                digest = files.get(file.name)
                if digest and (content := _content(file, folder, digest)) is not None and digest_of(content) == digest:
                    return folder
        raise NotCallable(call.name, _why_not(places, is_there=is_there))

    async def _fetch(self, call: ToolCall, transport: Mapping[str, Any], path: str) -> bytes | None:
        """What the server that listed the skill says that the file holds; None: nothing that can be read."""
        server = await to_thread.run_sync(self._server, call.agent, text_of(transport["server"]))
        if server is None:
            raise NotCallable(call.name, "the server that listed it is no longer here")
        uri = f"{text_of(transport.get('uri')).rpartition('/')[0]}/{path}"
        result = await self.servers.call(replace(call, agent=server, arguments={"uri": uri}, method="resources/read"))
        return _bytes_of(items_of(result.get("contents")))

    def _server(self, skill: Agent, key: str) -> Agent | None:
        names = {claim.source for claim in claims_on(self.registry, skill.id)}
        claims = (claim for source in self.registry.stored_sources() if source.name in names for claim in source.claims)
        agent_id = next((agent_id for its_key, agent_id in claims if key in (its_key, plain_key(its_key))), None)
        server = self.registry.agent(agent_id) if agent_id else None
        return None if server is None or server.hidden or server.pending else server


def skill_file(files: Mapping[str, Any]) -> str:
    """The path of the SKILL.md among the files of a skill; empty: it is not among them."""
    return next((path for path in files if is_skill(PurePosixPath(path)) and "/" not in path), "")


def _resource(path: str, content: bytes) -> dict[str, str]:
    kind = "text/markdown" if path.endswith(".md") else guess_type(path)[0]
    try:
        return {"uri": path, "mimeType": kind or "text/plain", "text": content.decode()}
    except UnicodeDecodeError:
        return {"uri": path, "mimeType": kind or "application/octet-stream", "blob": b64encode(content).decode()}


def _bytes_of(contents: list[Any]) -> bytes | None:
    item = fields_of(contents[0]) if len(contents) == 1 else {}
    try:
        return b64decode(item["blob"], validate=True) if "blob" in item else str(item["text"]).encode()
    except (KeyError, TypeError, ValueError):
        return None


def _skills(place: str) -> Iterator[Path]:
    """Those that `ingest` would read there."""
    try:
        files = [Path(where) for where, _ in list_path(place).files]
    except SourceError:
        return
    root = Path(place) if Path(place).is_dir() else None
    for file in files:
        if is_skill(file) and file.resolve().is_relative_to((root or file.parent).resolve()):
            yield file


def _content(file: Path, folder: Path, digest: Mapping[str, Any]) -> bytes | None:
    """One byte more than it had, at most. None if it cannot be read as it once was."""
    try:
        if not file.resolve().is_relative_to(folder.resolve()):
            return None
        with file.open("rb") as stream:
            return stream.read(int(digest["size"]) + 1)
    except (OSError, RuntimeError):
        return None


def _of_scripts(place: str, tool: Tool) -> str:
    script = fields_of(fields_of(parse_field(tool.annotations)).get("script"))
    path, digest = text_of(script.get("path")), text_of(script.get("sha256"))
    if not path:
        return f"This is the text of the skill in {place}. Follow it; nothing was run."
    remark = f", SHA-256 {digest} when it was ingested" if digest else ""
    return (
        f"Nothing was run: a skill's scripts are not run here. {path} lies in {place}{remark}. Whoever may run "
        "programs on that machine runs it as the text above says."
    )


def _why_not(places: list[str], *, is_there: bool) -> str:
    if is_there:
        return f"its SKILL.md {INGEST_AGAIN}"
    if places:
        return f"its SKILL.md is no longer under {', '.join(places)}"
    return (
        "its folder was not ingested on this machine, so that there is no text of it here. Run "
        "`waygraph ingest FOLDER` on the machine of this gateway"
    )
