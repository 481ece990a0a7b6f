"""A skill that is called gives its text, the SKILL.md, to the model that is to follow it. Its scripts are not run.

The text is read from the folder that a person on this machine ingested (`manifest.trust_store`), and only if it is the
very text that was ingested, by its digest: so neither a link nor a name leads to another file, and what was changed is
looked at before a model follows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from waygraph.ingest.execution.call import ToolCall, text
from waygraph.ingest.execution.services import claims_on, places_vouched_for
from waygraph.ingest.manifest.fields import fields_of, text_of
from waygraph.ingest.manifest.trust_store import VouchedFile
from waygraph.ingest.sources.parse import MAX_SKILL_BYTES, digest_of, is_skill
from waygraph.ingest.sources.read import list_path
from waygraph.ingest.upstream.connection import Result
from waygraph.registry.model.errors import NotCallable, SourceError
from waygraph.registry.model.nouns import Agent, Tool, parse_field
from waygraph.registry.storage.local_registry import LocalRegistry

MOST_CHARS = 100_000
"""Of a text that is given to a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTexts:
    """A ToolCaller for agents of the kind `skill`. Which of its tools is called only says what is told of scripts."""

    registry: LocalRegistry
    trust_file: VouchedFile

    async def call(self, call: ToolCall) -> Result:
        """As `ToolCaller.call`."""
        return await to_thread.run_sync(self._text, call.agent, call.tool)

    def _text(self, agent: Agent, tool: Tool) -> Result:
        """Raises NotCallable."""
        transport = fields_of(parse_field(agent.transport))
        digest, folder = text_of(transport.get("sha256")), text_of(transport.get("folder"))
        places = places_vouched_for(self.trust_file, claims_on(self.registry, agent.id))
        is_there = False
        for file in (file for place in places for file in _skills(place) if file.absolute().parent.name == folder):
            is_there = True
            if digest and (content := _content(file)) is not None and digest_of(content) == digest:
                rest = len(content) - MOST_CHARS
                more = f"\n\n… ({rest} more characters stand in the file)" if rest > 0 else ""
                remark = _of_scripts(file.absolute().parent, tool)
                return {"content": [text(f"{content[:MOST_CHARS]}{more}"), text(remark)]}
        raise NotCallable(tool.call_name or tool.id, _why_not(places, is_there=is_there))


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


def _content(file: Path) -> str | None:
    """None if it cannot be read as it once was."""
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_SKILL_BYTES + 1)
        return raw.decode("utf-8-sig") if len(raw) <= MAX_SKILL_BYTES else None
    except (OSError, UnicodeDecodeError):
        return None


def _of_scripts(folder: Path, tool: Tool) -> str:
    script = fields_of(fields_of(parse_field(tool.annotations)).get("script"))
    path, digest = text_of(script.get("path")), text_of(script.get("sha256"))
    if not path:
        return f"This is the text of the skill in {folder}. Follow it; nothing was run."
    remark = f", SHA-256 {digest} when it was ingested" if digest else ""
    return (
        f"Nothing was run: a skill's scripts are not run here. {path} lies in {folder}{remark}. Whoever may run "
        "programs on that machine runs it as the text above says."
    )


def _why_not(places: list[str], *, is_there: bool) -> str:
    if is_there:
        return (
            "its SKILL.md is another than was ingested, or cannot be read: look at it, and run `waygraph ingest` again"
        )
    if places:
        return f"its SKILL.md is no longer under {', '.join(places)}"
    return (
        "its folder was not ingested on this machine, so that there is no text of it here. Run "
        "`waygraph ingest FOLDER` on the machine of this gateway"
    )
