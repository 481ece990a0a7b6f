"""Roles without a language model: questions of templates, arguments and results by schema. Pure.

The order of calls is that of a walk, so it says nothing about how people work: for mechanics and for negatives.
"""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from waygraph.registry.model.nouns import Agent, Tool, parse_field
from waygraph_lab.synthesis.simulation import LEAST_CALLS, Scene, Turn
from waygraph_lab.template_questions import TemplateAuthor, verb_and_thing

FAILURES = 0.1
"""The share of calls that fail."""
MOST_STEPS = 5
_QUESTIONS = 4


class RuleRoles:
    """Half of the conversations state all steps in the request, half of them one step at a time."""

    def plan(self, tools: Mapping[str, tuple[Agent, Tool]], chance: Random) -> Scene | None:
        steps = list(tools)[: chance.randint(LEAST_CALLS, MOST_STEPS)]
        asks = [self._ask(*tools[step], chance) for step in steps]
        one_at_a_time = chance.random() < 0.5
        request = asks[0] if one_at_a_time else " Then: ".join(asks)
        return Scene(tools=tools, task="\n".join(asks), request=request, steps=steps)

    def act(self, scene: Scene, turns: Sequence[Turn], chance: Random) -> Mapping[str, Any]:
        done = _successes(turns)
        if done == len(scene.steps):
            return {"answer": "That is everything you asked for."}
        if turns[-1]["role"] == "call" and turns[-1]["outcome"] == "ok" and scene.request == scene.task.split("\n")[0]:
            return {"say": f"Done: {_thing(turns[-1]['tool'])}. What else?"}
        step = scene.steps[done]
        spare = [tool_id for tool_id in scene.tools if tool_id not in scene.steps]
        if turns[-1].get("outcome") == "failed" and spare:
            step = chance.choice([step, spare[0]])
        return {"call": step, "arguments": sample(parse_field(scene.tools[step][1].input_schema), "input", chance)}

    def reply(self, scene: Scene, turns: Sequence[Turn], chance: Random) -> str:  # noqa: ARG002
        return scene.task.split("\n")[_successes(turns)]

    def respond(self, tool: Tool, call: Turn, chance: Random) -> Mapping[str, Any]:  # noqa: ARG002
        if chance.random() < FAILURES:
            return {"result": "the service did not answer", "failed": True}
        schema = parse_field(tool.output_schema)
        result = sample(schema, "result", chance) if schema else {_thing(tool.name): f"number {chance.randrange(1000)}"}
        return {"result": json.dumps(result, ensure_ascii=False), "failed": False}

    def _ask(self, agent: Agent, tool: Tool, chance: Random) -> str:
        return chance.choice(tool.questions or TemplateAuthor().questions(agent, tool, _QUESTIONS))


def _successes(turns: Sequence[Turn]) -> int:
    return sum(turn.get("outcome") == "ok" for turn in turns)


def _thing(name: str) -> str:
    verb, thing = verb_and_thing(name)
    return thing or verb


def sample(schema: Any, name: str, chance: Random) -> Any:
    """A value that a plain schema allows; of an object the required properties alone."""
    if not isinstance(schema, Mapping):
        return f"{name.replace('_', ' ')} {chance.randrange(100)}"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return chance.choice(schema["enum"])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema or name == "input":
        properties, required = schema.get("properties"), schema.get("required")
        known = properties if isinstance(properties, Mapping) else {}
        return {key: sample(known.get(key), key, chance) for key in (required if isinstance(required, list) else known)}
    if kind == "array":
        return [sample(schema.get("items"), name, chance)]
    if kind in ("integer", "number"):
        least = schema.get("minimum")
        return (least if isinstance(least, (int, float)) else 1) + chance.randrange(5)
    return {"boolean": True, "null": None}.get(str(kind), f"{name.replace('_', ' ')} {chance.randrange(100)}")
