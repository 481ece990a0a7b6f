"""`call`: runs one tool, by the rules that hold for hosts."""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from waygraph.api.cli.options import Groups, Invocation, json_or_text, principal
from waygraph.api.cli.render.output import Lines, one_line
from waygraph.registry.model.arguments import types_of
from waygraph.registry.model.errors import NeedsConsent, NotCallable

if TYPE_CHECKING:
    from waygraph.registry.model.nouns import Agent, Tool
    from waygraph.registry.model.tool_calls import ToolResult


def call(
    options: Invocation,
    name: Annotated[str, Argument(metavar="TOOL", help="A tool's id or call name, or a name that one tool has.")],
    values: Annotated[
        list[str] | None, Argument(metavar="[NAME=VALUE]...", help="Its arguments; values are text or JSON.")
    ] = None,
    *,
    arguments: Annotated[str, Option(metavar="JSON", help="All arguments as one object.")] = "",
    yes: Annotated[bool, Option(help="Agree, where the policy wants a person's consent.")] = False,
    timeout: Annotated[float | None, Option(metavar="SECONDS", help="Wait no longer for the result.")] = None,
    group: Groups = None,
) -> None:
    """Run a tool and print its result; exit 1 where it failed or may not run.

    waygraph call calculator/evaluate expression=2340*0.17

    By the policy, the checks of arguments and the audit that hold for hosts.
    """
    from waygraph.api.library import Registry
    from waygraph.registry.catalog.resolve import tool_meant

    who = principal(group)
    with Registry.open(options.place, embedder=options.embedder or None, settings=options.settings) as registry:
        tool = tool_meant(registry, name=name, principal=who)
        by_name = read_arguments(tool, values or (), arguments)

        def run(consent: str = "") -> "ToolResult":
            try:
                return registry.call(name, by_name, timeout_s=timeout, consent=consent, principal=who)
            except NotCallable as error:  # one that runs by its exact name only: the command that runs it is told
                if not error.how:
                    raise
                raise NotCallable(tool.id, error.reason, how=f"run `waygraph call {shlex.quote(tool.id)}`") from error

        try:
            result = run()
        except NeedsConsent as error:
            if not yes:
                _require_consent(registry.agent(tool.agent_id, principal=who), tool, by_name, error)
            result = run(tool.content_hash)
    options.show(result, lambda each: [Lines(each.text)], _shape)
    if result.is_error:
        raise typer.Exit(1)


def read_arguments(tool: "Tool", values: Sequence[str], document: str) -> dict[str, Any]:
    """NAME=VALUE pairs over the object of `document`. Raises BadParameter.

    A value is text where the parameter takes one, else JSON where it is JSON; JSON first where it takes anything.
    """
    try:
        by_name = json.loads(document or "{}")
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"it is not JSON: {error}", param_hint="'--arguments'") from error
    if not isinstance(by_name, dict):
        raise typer.BadParameter('one JSON object is wanted, such as {"limit": 5}', param_hint="'--arguments'")
    texts: dict[str, Any] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{value!r} is not NAME=VALUE", param_hint="'[NAME=VALUE]...'")
        if name in texts:
            message = f"{name!r} is given twice; several values are one list: '{name}=[1, 2]'"
            raise typer.BadParameter(message, param_hint="'[NAME=VALUE]...'")
        texts[name] = text if "string" in types_of(tool, name) else json_or_text(text)
    return by_name | texts


def _require_consent(agent: "Agent", tool: "Tool", arguments: Mapping[str, Any], error: NeedsConsent) -> None:
    """Asks a person at a terminal. Raises NeedsConsent without a terminal, NotCallable for a no."""
    from waygraph.registry.access.policy import danger_of

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        nobody = "without a terminal nobody can be asked, --yes agrees beforehand"
        raise NeedsConsent(tool.id, f"{error.policy_reason}; {nobody}")
    text = json.dumps(arguments)  # as ASCII: no character of it hides or turns around what a person reads
    danger = " It may change or delete things." if danger_of(agent, tool) == "destructive" else ""
    condition = f"runs only if a person agrees: {one_line(error.policy_reason)}.{danger}"
    if not typer.confirm(f"{one_line(tool.id)} {text} {condition} Run it?", default=False, err=True):
        raise NotCallable(tool.id, "you did not agree")


def _shape(result: "ToolResult") -> dict[str, Any]:
    """As MCP has it."""
    return {
        "content": list(result.content),
        "structuredContent": result.structured_content,
        "isError": result.is_error,
        "_meta": dict(result.meta),
    }
