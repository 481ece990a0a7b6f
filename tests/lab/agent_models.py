"""Language models for the agent loop, behind an endpoint as OpenAI's on a real socket, each of another character.

They know the right tools of each task, as no real model does: what they show is that the loop counts rightly.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.http_doubles import Quiet, serving
from waygraph_lab.scalemcp.companies import KINDS

KEY = "sk-agents-1234567890"
TOKENS = {"prompt_tokens": 100, "completion_tokens": 10}
VALID: Mapping[str, Mapping[str, Any]] = {
    "stock_price_history": {"timeline": "w"},
    "analyst_price_targets": {"target_type": "mean"},
}
MISTAKEN = {"timeline": "y", "target_type": "y", "year": "y"}
REFUSAL = "I cannot help with that."

type Step = str | list[tuple[str, Any]]
"""An answer, or calls: name and arguments."""


@dataclass(frozen=True)
class Talk:
    """What a request holds. `bound`: the tools that can be called; `results`: those of the calls so far, in order."""

    task: str
    right: Sequence[str]
    bound: Sequence[str]
    results: Sequence[str]
    turn: int


@dataclass
class AgentModels:
    url: str = ""
    right_tools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Task → the names of its right tools."""
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    refused: str = ""
    """`guide` is refused for a prompt that holds this."""
    before: Callable[[Mapping[str, Any]], None] = lambda _: None
    """What is done before a request is answered."""
    lives: dict[str, int] = field(default_factory=dict)
    """Model → how often it answers, as `perfect` does, before it is there no more."""


def arguments_of(tool: str) -> Mapping[str, Any]:
    """Of which the tool's schema approves."""
    return VALID.get(next(kind for kind in KINDS if tool.endswith(kind)), {})


def perfect(talk: Talk) -> Step:
    """Searches for each right tool, calls each once, and answers with all results."""
    if talk.turn == 0:
        return [("find_tools", {"query": name}) for name in talk.right]
    if talk.turn == 1:
        return [(name, arguments_of(name)) for name in talk.right]
    return " ".join(talk.results[len(talk.right) :])


def careless(talk: Talk) -> Step:
    """Four calls, of which one is correct: the first right tool, the same again, and two of another tool."""
    if talk.turn == 0:
        return [("find_tools", {"query": name}) for name in talk.right]
    if talk.turn == 1:
        first = talk.right[0]
        other = next(name for name in talk.bound if name not in talk.right)
        return [
            (first, arguments_of(first)),
            (first, arguments_of(first)),
            (other, arguments_of(other)),
            (other, MISTAKEN),
        ]
    return "It went well."


def sloppy(talk: Talk) -> Step:
    """Calls each right tool, with arguments that only a tool without parameters takes."""
    if talk.turn == 0:
        return [("find_tools", {"query": name}) for name in talk.right]
    return [(name, MISTAKEN) for name in talk.right] if talk.turn == 1 else "Never mind."


def looping(talk: Talk) -> Step:
    """Calls the first right tool for ever."""
    return (
        [("find_tools", {"query": talk.right[0]})] if talk.turn == 0 else [(talk.right[0], arguments_of(talk.right[0]))]
    )


def routed(talk: Talk) -> Step:
    """Routes to each right tool, executes each once, and answers with all results."""
    if talk.turn == 0:
        return [("route", {"query": name}) for name in talk.right]
    if talk.turn == 1:
        return [("execute", {"name": name, "params": arguments_of(name)}) for name in talk.right]
    return " ".join(talk.results[len(talk.right) :])


def unrouted(talk: Talk) -> Step:
    """Executes what it did not route to, with params that are none, and calls a tool by its own name."""
    first = talk.right[0]
    calls = [
        ("execute", {"name": first, "params": {}}),
        ("execute", {"name": first}),
        ("execute", "no JSON"),
        (first, {}),
    ]
    return calls if talk.turn == 0 else "Done."


def stubborn(talk: Talk) -> Step:
    """Routes, calls twice with arguments that only a tool without parameters takes, and routes once more."""
    name = talk.right[0]
    route, calls = [("route", {"query": name})], [("execute", {"name": name, "params": MISTAKEN})] * 2
    steps: list[Step] = [route, calls, route, "Done."]
    return steps[talk.turn]


def reacting(talk: Talk) -> Step:
    """Works in plain text, as ReAct asks: each right tool in turn, with an invented result behind it."""
    if talk.turn < len(talk.right):
        name = talk.right[talk.turn]
        asks = f"Thought: I need it.\nAction: {name}\nAction Input: {json.dumps(arguments_of(name))}"
        return f"<think>Hm.</think>{asks}\nObservation: 1,000,000\nFinal Answer: 1,000,000"
    return f"Thought: That is all.\nFinal Answer: {' '.join(talk.results)}"


def mumbling(talk: Talk) -> Step:
    """Acts badly in plain text: a tool that there is not, arguments that are none, a fence; then it just answers."""
    name = talk.right[0]
    fenced = f"Action: `{name}`\nAction Input:\n```json\n{json.dumps(arguments_of(name))}\n```\nThat will do."
    steps = ["Action: nobody\nAction Input: {}", f"Action: {name}\nAction Input: what you like", fenced, "Never mind."]
    return steps[talk.turn]


def tempted(talk: Talk) -> Step:
    """Calls all that it found whose agent nobody serves."""
    if talk.turn == 0:
        return [("find_tools", {"query": name}) for name in talk.right]
    strange = [name for name in talk.bound if "variants" in name or name.startswith("stranger")]
    return [(name, {}) for name in strange] if talk.turn == 1 and strange else "Done."


def fickle(talk: Talk) -> Step:
    """Works well on a task that it sees for the first time, and refuses any other time."""
    if talk.turn == 0:
        SEEN[talk.task] = SEEN.get(talk.task, 0) + 1
    return perfect(talk) if SEEN[talk.task] == 1 else REFUSAL


SEEN: dict[str, int] = {}
"""Of `fickle`: task → how often it began."""


def refusing(_: Talk) -> Step:
    return REFUSAL


def confused(talk: Talk) -> Step:
    """Calls that are none, then an answer."""
    calls = [("find_tools", "no JSON"), ("find_tools", {"query": 7}), ("find_tools", {"query": "x" * 40_000})]
    return [*calls, (talk.right[0], {}), ("", []), (talk.right[0], "[1]")] if talk.turn == 0 else "Done \ud800."


MODELS: Mapping[str, Callable[[Talk], Step]] = {
    each.__name__: each
    for each in (
        *(perfect, careless, sloppy, looping, refusing, confused),
        *(routed, unrouted, stubborn, reacting, mumbling, tempted, fickle),
    )
}


def judge(material: Mapping[str, Any]) -> str:
    """1 if there are calls, none failed, and the answer holds all that they returned; else 0."""
    results = [call["result"] for call in material["calls"]]
    is_whole = all(not result.startswith("Error") and result in material["final_answer"] for result in results)
    return json.dumps({"score": float(bool(results) and is_whole)})


@contextmanager
def agent_models() -> Iterator[AgentModels]:
    """On a free port of the loopback; `silent` is refused, `judge` judges, `vague` judges without a score.

    `guide` opens and selects everything in a walk, and puts candidates in the order in which they are.
    """
    models = AgentModels()
    with serving(_endpoint(models)) as address:
        models.url = f"{address}/v1"
        yield models


def _endpoint(models: AgentModels) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Endpoint(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                models.requests.append(request)
            models.before(request)
            is_known = request["model"] in {*MODELS, "judge", "vague", "guide"}
            if request["model"] in models.lives:
                models.lives[request["model"]] -= 1
                is_known = models.lives[request["model"]] >= 0
            if request["model"] == "guide" and models.refused:
                is_known = models.refused not in request["messages"][1]["content"]
            answer = _message(models, request) if is_known else {}
            choices = {"choices": [{"index": 0, "message": {"role": "assistant", **answer}}], "usage": TOKENS}
            body = json.dumps(choices if is_known else {"error": {"message": "no such model"}}).encode()
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Endpoint


def _message(models: AgentModels, request: Mapping[str, Any]) -> dict[str, Any]:
    messages, name = request["messages"], request["model"]
    if name == "guide":
        told = json.loads(messages[1]["content"])
        if "choices" in told:
            return {"content": json.dumps({"numbers": [*range(1, len(told["choices"]) + 1)]})}
        return {"content": json.dumps([each["id"] for each in told["candidates"]])}
    if name in ("judge", "vague"):
        return {"content": judge(json.loads(messages[1]["content"])) if name == "judge" else "well done"}
    talk = Talk(
        task=messages[1]["content"],
        right=models.right_tools[messages[1]["content"]],
        bound=[
            tool["function"]["name"] for tool in request.get("tools", ()) if tool["function"]["name"] != "find_tools"
        ],
        results=[
            message["content"].removeprefix("Observation: ")
            for message in messages[2:]
            if message["role"] in ("tool", "user")
        ],
        turn=sum(message["role"] == "assistant" for message in messages),
    )
    step = MODELS.get(name, perfect)(talk)
    if isinstance(step, str):
        return {"content": step}
    calls = [
        {"id": f"call_{talk.turn}_{at}", "type": "function", "function": {"name": tool, "arguments": _text(arguments)}}
        for at, (tool, arguments) in enumerate(step)
    ]
    return {"content": None, "tool_calls": calls}


def _text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
