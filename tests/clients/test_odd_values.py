"""Whatever a server says in any field of what the protocol has: a host on the SDK in TypeScript takes what it gets."""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from tests.clients import odd_values as odd
from tests.host_programs import typescript_sdk
from waygraph.api.mcp.protocol import UNFIT, mend_item, mend_question, mend_result
from waygraph.api.mcp.results import attribute_result
from waygraph.registry.catalog.tool_formats import compiles

HERE = Path(__file__).parent
TIMES = 300
"""So many values of each kind."""


def item(method: str, field: str) -> Callable[[Any], Any]:
    return lambda value: mend_item(method, field, value)


def as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


KINDS: Mapping[str, tuple[tuple[Any, ...], Callable[[Any], Any]]] = {
    "PromptSchema": ((odd.PROMPT,), item("prompts/list", "prompts")),
    "ResourceSchema": ((odd.RESOURCE,), item("resources/list", "resources")),
    "ResourceTemplateSchema": ((odd.TEMPLATE,), item("resources/templates/list", "resourceTemplates")),
    "ToolSchema": ((odd.TOOL,), item("tools/list", "tools")),
    "ContentBlockSchema": (odd.BLOCKS, item("tools/call", "content")),
    "PromptMessageSchema": ((odd.MESSAGE,), item("prompts/get", "messages")),
    "CompleteResultSchema": ((odd.COMPLETION,), lambda value: mend_result("completion/complete", as_object(value))),
    "ElicitRequestParamsSchema": (
        (odd.FORM, odd.PAGE),
        lambda value: mend_question("elicitation/create", as_object(value)),
    ),
    "CreateMessageRequestParamsSchema": (
        (odd.SAMPLING,),
        lambda value: mend_question("sampling/createMessage", as_object(value)),
    ),
    "CallToolResultSchema": (
        ({"content": list(odd.BLOCKS), "isError": True, "structuredContent": {"a": 1}, "_meta": {}},),
        lambda value: attribute_result(as_object(value), "a/t"),
    ),
}


def faults_of(pairs: list[tuple[str, Any]]) -> list[str]:
    """What the SDK's schemas say of each value; an empty text where it takes it."""
    node, sdk = typescript_sdk()
    command = (node, str(HERE / "typescript_schemas.mjs"), str(sdk))
    asked = json.dumps(pairs)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    faults: list[str] = json.loads(done.stdout)
    assert len(faults) == len(pairs)
    return faults


def older(value: Any) -> Any:
    """What a host of the handshake era gets: its structured content is an object."""
    if isinstance(value, dict) and not isinstance(value.get("structuredContent", {}), dict):
        return {name: each for name, each in value.items() if name != "structuredContent"}
    return value


def test_a_host_takes_whatever_is_left_of_odd_values() -> None:
    """What is whole stays as it is; of what is odd much is refused as it is, and nothing once it is mended."""
    random = Random(20261125)  # noqa: S311
    pairs: list[tuple[str, Any]] = []
    odd_pairs: list[tuple[str, Any]] = []
    for name, (wholes, mend) in KINDS.items():
        for whole in wholes:
            assert mend(whole) == whole or name == "CallToolResultSchema", name
        for time in range(TIMES):
            value = odd.spoil(random, wholes[time % len(wholes)])
            odd_pairs.append((name, value))
            if (mended := mend(value)) is not UNFIT:
                pairs.append((name, older(mended)))
    assert len(pairs) > len(odd_pairs) / 3
    assert sum(map(bool, faults_of(odd_pairs))) > len(odd_pairs) / 4
    faults = [(pair, fault) for pair, fault in zip(pairs, faults_of(pairs), strict=True) if fault]
    assert faults == []


def test_a_host_compiles_what_is_promised_of_answers() -> None:
    words: list[Any] = ["type", "properties", "required", "items", "enum", "$ref", "pattern", "anyOf", "not", "format"]
    words += ["minimum", "nullable", "$id", "id", "$defs", "const", "additionalProperties", "patternProperties", "if"]
    values: list[Any] = ["string", "object", "strng", ["string", "null"], [], ["a"], {}, {"a": {}}, True, 3, "3", None]
    values += [
        "#/$defs/a",
        "#",
        "https://x/",
        "^a+$",
        "(?i)a",
        "a{2,3}",
        "[",
        r"\Z",
        r"\-",
        [{}],
        {"type": "x"},
        ["a", 1],
    ]
    random = Random(7)  # noqa: S311

    def schema(depth: int) -> dict[str, Any]:
        told = {random.choice(words): random.choice(values) for _ in range(random.randrange(4))}
        inner = {name: schema(depth - 1) for name in ("a", "b")} if depth else {}
        return told | ({"properties": inner} if inner and random.random() < 0.8 else {})

    promised = [{**schema(2), "type": "object"} for _ in range(3_000)]
    fit = [each for each in promised if compiles(each)]
    assert len(fit) > 100
    assert any(faults_of([("compiles", each) for each in promised]))
    faults = [
        (each, why) for each, why in zip(fit, faults_of([("compiles", each) for each in fit]), strict=True) if why
    ]
    assert faults == []
