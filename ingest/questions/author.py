"""Who writes questions, and a manifest with them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from waygraph.ingest.manifest import MAX_QUESTIONS
from waygraph.ingest.questions.templates import TemplateAuthor
from waygraph.registry.changes import AgentEntry, Manifest, Rejected
from waygraph.registry.embedding.protocol import Progress
from waygraph.registry.errors import InvalidSetting, UnfitAnswer
from waygraph.registry.identity import sealed_tool
from waygraph.registry.model import Agent, Tool
from waygraph.registry.settings import Settings

TEMPLATES = "templates"


class QuestionAuthor(Protocol):
    def questions(self, agent: Agent, tool: Tool, count: int) -> tuple[str, ...]:
        """At most `count` distinct questions, the most telling first; the same for the same tool.

        Raises LanguageModelUnavailable, LanguageModelRefused, UnfitAnswer for this tool alone.
        """
        ...

    def close(self) -> None: ...


def open_author(spec: str, settings: Settings, environ: Mapping[str, str]) -> QuestionAuthor:
    """`templates`, or `openai:MODEL`. Raises InvalidSetting. Touches no network."""
    scheme, _, model = spec.partition(":")
    if spec == TEMPLATES:
        return TemplateAuthor()
    if scheme == "openai" and model:
        from waygraph.ingest.questions.language_model import LanguageModelAuthor
        from waygraph.registry.chat import ChatModel

        return LanguageModelAuthor(ChatModel.open(model, settings, environ), settings.cache_path / "questions")
    raise InvalidSetting(f"questions by {spec!r}: expected {TEMPLATES} or openai:MODEL")


def with_questions(
    manifest: Manifest, author: QuestionAuthor, count: int, progress: Progress | None = None
) -> Manifest:
    """Each tool with its own questions, and as many of the author's as are missing to `count`.

    A tool that the author has no fit answer for keeps its own, and `cut` says so. Raises InvalidSetting for a count
    that no tool may have, and what else the author raises.
    """
    if not 0 <= count <= MAX_QUESTIONS:
        raise InvalidSetting(f"{count} questions a tool: expected 0 to {MAX_QUESTIONS}")
    entries, lacking, total = [], list[Rejected](), len(manifest.entries)
    for done, entry in enumerate(manifest.entries, start=1):
        tools = tuple(_asked(entry, tool, author, count, lacking) for tool in entry.tools)
        entries.append(replace(entry, tools=tools))
        if progress:
            progress(done, total)
    return replace(manifest, entries=tuple(entries), cut=(*manifest.cut, *lacking))


def _asked(entry: AgentEntry, tool: Tool, author: QuestionAuthor, count: int, lacking: list[Rejected]) -> Tool:
    missing = count - len(tool.questions)
    if missing <= 0:
        return tool
    try:
        made = author.questions(entry.agent, tool, missing)
    except UnfitAnswer as error:
        lacking.append(Rejected(where=tool.id, reason=f"no questions were made up: {error}"))
        return tool
    return sealed_tool(replace(tool, questions=tuple(dict.fromkeys([*tool.questions, *made]))))
