"""A model that follows a script, behind an endpoint as OpenAI's: chat completions and responses, over real sockets.

The script is call, answer. Each step is made of what the request holds: the tools that the host offers, the words of
the last task, and what was called since. It calls the tool that the task names, else the first that is offered.
`find_tools` it calls only if that is all there is.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.http_doubles import Quiet, serving

KEY = "sk-scripted-1234567890"
NAME = "scripted-1"
FINDER = "find_tools"
GIVEN = re.compile(r"(\w+)=(\S+)")
"""What a task states for a parameter: `timezone=Asia/Tokyo`."""


@dataclass(frozen=True)
class Call:
    """A tool that the model wants called, and the result once the host gave it."""

    tool: str
    arguments: Mapping[str, Any]
    result: str | None = None


@dataclass(frozen=True)
class Conversation:
    """A request, of either API. `tools`: the schemas of the parameters by name, in the order offered."""

    api: str
    tools: Mapping[str, Mapping[str, Any]]
    task: str
    calls: Sequence[Call]


@dataclass
class ScriptedModel:
    """Where the endpoint is, and what it was asked."""

    url: str = ""
    asked: list[Conversation] = field(default_factory=list)
    last_request: str = ""
    """As it came."""
    refused: list[str] = field(default_factory=list)
    """What was no request of a good host; answered by 400."""

    @property
    def calls(self) -> Sequence[Call]:
        """All of the conversation, as the last request tells it."""
        return self.asked[-1].calls

    @property
    def offered(self) -> set[frozenset[str]]:
        """The names of the tools that the host offered, in any request."""
        return {frozenset(conversation.tools) for conversation in self.asked}


def next_step(conversation: Conversation) -> Call | str:
    """Calls what is offered, and answers with what it returned."""
    last = conversation.calls[-1].tool if conversation.calls else ""
    if last not in ("", FINDER):
        return f"The tool says: {conversation.calls[-1].result}"
    tools = [name for name in conversation.tools if name != FINDER]
    if tools:
        words = conversation.task.lower()
        name = next((each for each in tools if each.rpartition("__")[2].lower() in words), tools[0])
        return Call(name, _params(conversation.tools[name], conversation.task))
    if FINDER in conversation.tools and not last:
        return Call(FINDER, {"query": GIVEN.sub("", conversation.task).strip()})
    return "There is no tool for it."


def _params(schema: Mapping[str, Any], task: str) -> dict[str, Any]:
    """What the task states for the parameters that the schema names, as the types that it names."""
    given = dict(GIVEN.findall(task))
    return {
        name: given[name] if said.get("type", "string") == "string" else json.loads(given[name])
        for name, said in schema.get("properties", {}).items()
        if name in given
    }


class NoRequest(Exception):
    """What came is none that the script can go on from."""


def conversation_of(api: str, request: Mapping[str, Any]) -> Conversation:
    """Raises NoRequest."""
    if request.get("stream"):
        raise NoRequest("this model does not stream")
    read = _chat if api == "chat" else _responses
    return read(request)


def _chat(request: Mapping[str, Any]) -> Conversation:
    messages = request["messages"]
    at = _last_task(messages)
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in request.get("tools", ())}
    results = {item["tool_call_id"]: _text(item["content"]) for item in messages if item["role"] == "tool"}
    calls = [
        Call(said["function"]["name"], json.loads(said["function"]["arguments"]), results[said["id"]])
        for message in messages[at:]
        for said in message.get("tool_calls") or ()
    ]
    return Conversation("chat", tools, _text(messages[at]["content"]), calls)


def _responses(request: Mapping[str, Any]) -> Conversation:
    items = request["input"] if isinstance(request["input"], list) else [{"role": "user", "content": request["input"]}]
    at = _last_task(items)
    tools = {tool["name"]: tool["parameters"] for tool in request.get("tools", ())}
    results = {item["call_id"]: _text(item["output"]) for item in items if item.get("type") == "function_call_output"}
    calls = [
        Call(item["name"], json.loads(item["arguments"]), results[item["call_id"]])
        for item in items[at:]
        if item.get("type") == "function_call"
    ]
    return Conversation("responses", tools, _text(items[at]["content"]), calls)


def _last_task(messages: Sequence[Mapping[str, Any]]) -> int:
    """One behind a tool's result is the host's, which hands on pictures there."""
    roles = [message.get("role") for message in messages]
    return max(at for at, role in enumerate(roles) if role == "user" and "tool" not in roles[max(0, at - 1) : at])


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", f"[{part['type']}]") for part in content)


def _completion(step: Call | str, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None if isinstance(step, Call) else step}
    if isinstance(step, Call):
        function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    reason = "tool_calls" if isinstance(step, Call) else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": number,
        "model": NAME,
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _response(step: Call | str, number: int) -> dict[str, Any]:
    item: dict[str, Any]
    if isinstance(step, Call):
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
        item |= {"name": step.tool, "arguments": json.dumps(step.arguments), "status": "completed"}
    else:
        text = {"type": "output_text", "text": step, "annotations": []}
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": number,
        "status": "completed",
        "model": NAME,
        "output": [item],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage | details,
    }


APIS = {"/v1/chat/completions": ("chat", _completion), "/v1/responses": ("responses", _response)}


@contextmanager
def scripted_model() -> Iterator[ScriptedModel]:
    """On a free port of the loopback, until the block ends."""
    model = ScriptedModel()
    with serving(_answering_for(model)) as address:
        model.url = f"{address}/v1"
        yield model


def _answering_for(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Endpoint(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            model.last_request = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, answer = self._answer(json.loads(model.last_request))
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answer(self, request: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
            if self.path not in APIS:
                return 404, {"error": {"message": f"no such path: {self.path}"}}
            if self.headers.get("Authorization") != f"Bearer {KEY}":
                return 401, {"error": {"message": "Incorrect API key"}}
            api, shaped = APIS[self.path]
            try:
                conversation = conversation_of(api, request)
                step = next_step(conversation)
            except (NoRequest, KeyError, ValueError) as error:
                model.refused.append(f"{error!r} for {json.dumps(request)[:2000]}")
                return 400, {"error": {"message": model.refused[-1]}}
            model.asked.append(conversation)
            return 200, shaped(step, len(model.asked))

    return Endpoint
