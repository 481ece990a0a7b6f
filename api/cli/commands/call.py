"""`call`: runs one tool, by the rules that hold for hosts."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from waygraph.api.cli.options import AsJson, Groups, invocation, json_or_text, principal
from waygraph.api.cli.render.output import Lines, note, one_line, show

if TYPE_CHECKING:
    from waygraph.registry.model.nouns import Tool
    from waygraph.registry.model.tool_calls import ToolResult


def call(
    context: typer.Context,
    name: Annotated[str, Argument(metavar="TOOL", help="A tool's id or call name.", show_default=False)],
    values: Annotated[
        list[str] | None,
        Argument(metavar="[NAME=VALUE]...", help="Its arguments; values are text or JSON.", show_default=False),
    ] = None,
    *,
    arguments: Annotated[str, Option(metavar="JSON", help="All arguments as one object.")] = "",
    yes: Annotated[bool, Option("--yes", help="Agree, where the policy wants a person's consent.")] = False,
    timeout: Annotated[float | None, Option(metavar="SECONDS", help="Wait no longer for the result.")] = None,
    group: Groups = None,
    as_json: AsJson = False,
) -> None:
    """Run a tool and print its result; exit 1 where it failed or may not run.

    waygraph call calculator/evaluate expression=2340*0.17

    By the policy, the checks of arguments and the audit that hold for hosts.
    """
    from waygraph.api.library import Registry
    from waygraph.registry.model.errors import NeedsConsent

    options = invocation(context)
    settings = options.settings()
    who = principal(group)
    with Registry.open(options.place(settings), embedder=options.embedder or None, settings=settings) as registry:
        tool = registry.tool(name, principal=who)
        by_name = read_arguments(tool, values or (), arguments)
        try:
            result = registry.call(tool, by_name, timeout_s=timeout, principal=who)
        except NeedsConsent:
            if not yes and not _agrees(tool, by_name):
                raise
            result = registry.call(tool, by_name, timeout_s=timeout, consent=tool.content_hash, principal=who)
    show(result, _shape, lambda each: [Lines(_text(each))], as_json)
    if result.is_error:
        raise typer.Exit(1)


def read_arguments(tool: "Tool", values: Sequence[str], document: str) -> dict[str, Any]:
    """NAME=VALUE pairs over the object of `document`. A parameter that is a string by its schema is taken as it stands.

    Raises BadParameter.
    """
    try:
        by_name = json.loads(document or "{}")
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"it is not JSON: {error}", param_hint="'--arguments'") from error
    if not isinstance(by_name, dict):
        raise typer.BadParameter('one JSON object is wanted, such as {"limit": 5}', param_hint="'--arguments'")
    properties = tool.parameters.get("properties")
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{value!r} is not NAME=VALUE", param_hint="'[NAME=VALUE]...'")
        schema = properties.get(name) if isinstance(properties, Mapping) else None
        is_text = isinstance(schema, Mapping) and schema.get("type") == "string"
        by_name[name] = text if is_text else json_or_text(text)
    return by_name


def _agrees(tool: "Tool", arguments: Mapping[str, Any]) -> bool:
    """Asks a person at a terminal; without a terminal, nobody agrees."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        note("nobody can be asked without a terminal; --yes agrees beforehand")
        return False
    text = json.dumps(arguments)  # as ASCII: no character of it hides or turns around what a person reads
    return typer.confirm(f"{one_line(tool.id)} {text} runs only if a person agrees. Run it?", default=False, err=True)


def _shape(result: "ToolResult") -> dict[str, Any]:
    """As MCP has it."""
    return {
        "content": list(result.content),
        "structuredContent": result.structured_content,
        "isError": result.is_error,
    }


def _text(result: "ToolResult") -> str:
    """Its texts, else what is structured; of images and the like a line that says so."""
    blocks = [each for each in result.content if each.get("type") != "text"]
    others = [f"({each.get('type')}, {each.get('mimeType') or each.get('uri') or 'no type'})" for each in blocks]
    if result.text or not result.structured_content:
        return "\n".join([result.text, *others]).strip("\n")
    return json.dumps(result.structured_content, ensure_ascii=False, indent=2)
