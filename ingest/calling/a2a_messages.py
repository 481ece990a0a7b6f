"""A2A's messages and tasks as JSON-RPC has them, in the words of protocol 1.0 and of 0.3; and as results of a tool.

Pure. 1.0: `SendMessage`, ProtoJSON, states such as TASK_STATE_COMPLETED. 0.3: `message/send`, parts with a `kind`,
states such as `completed`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from waygraph.ingest.calling.answers import text
from waygraph.ingest.calling.call import Result
from waygraph.ingest.sources.foreign import fields_of, items_of, text_of
from waygraph.registry.skill_message import CONTEXT, TASK

META = "waygraph/a2a"
"""In `_meta` of a result: ids of the task and the conversation, and the task's state."""
_ENDED_WELL = frozenset({"completed"})
_ENDED_BADLY = frozenset({"failed", "canceled", "rejected", "auth-required"})
_WAITING = frozenset({"input-required"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What goes to an agent. `output_modes`: the media types that its skill gives; empty: any."""

    message_id: str
    text: str
    skill: str
    task_id: str = ""
    context_id: str = ""
    output_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one version of the protocol speaks."""

    version: str
    send: str
    get: str
    cancel: str

    def message(self, said: Said, tenant: str) -> dict[str, Any]:
        """The params of `send`."""
        is_modern = self is MODERN
        part = {"text": said.text} if is_modern else {"kind": "text", "text": said.text}
        message: dict[str, Any] = {
            "messageId": said.message_id,
            "role": "ROLE_USER" if is_modern else "user",
            "parts": [part],
            "metadata": {"skillId": said.skill},
        }
        message |= {} if is_modern else {"kind": "message"}
        message |= {name: value for name, value in (("taskId", said.task_id), ("contextId", said.context_id)) if value}
        configuration: dict[str, Any] = {"returnImmediately": True} if is_modern else {"blocking": False}
        if said.output_modes:
            configuration["acceptedOutputModes"] = list(said.output_modes)
        return self._of_tenant({"message": message, "configuration": configuration}, tenant)

    def task(self, task_id: str, tenant: str) -> dict[str, Any]:
        """The params of `get` and of `cancel`."""
        return self._of_tenant({"id": task_id}, tenant)

    def _of_tenant(self, params: dict[str, Any], tenant: str) -> dict[str, Any]:
        return {**params, "tenant": tenant} if tenant and self is MODERN else params


MODERN = Dialect("1.0", "SendMessage", "GetTask", "CancelTask")
OLDER = Dialect("0.3", "message/send", "tasks/get", "tasks/cancel")


def dialect_of(version: str) -> Dialect:
    """Of an interface's `protocolVersion`."""
    return OLDER if version.strip().startswith("0.") else MODERN


# -- what came -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message, or a task as it stands. `state` is empty of a message."""

    state: str = ""
    task_id: str = ""
    context_id: str = ""
    parts: Sequence[Mapping[str, Any]] = ()
    """Of the message, or of the task's artifacts."""
    status: Sequence[Mapping[str, Any]] = field(default=())
    """Parts of what the agent says of the task's state."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing more comes by waiting."""
        return not self.task_id or self.state in _ENDED_WELL | _ENDED_BADLY | _WAITING

    @property
    def status_text(self) -> str:
        return "\n".join(filter(None, (text_of(part.get("text")) for part in self.status)))


def heard(result: object) -> Heard | None:
    """The result of a request, in either dialect; None: it is neither message nor task."""
    told = fields_of(result)
    task = fields_of(told.get("task")) or (told if told.get("kind") == "task" or "status" in told else {})
    if task and text_of(task.get("id")):
        return _task(task)
    message = fields_of(told.get("message")) or (told if "parts" in told else {})
    if "parts" not in message:
        return None
    return Heard(context_id=text_of(message.get("contextId")), parts=_parts(message))


def _task(task: Mapping[str, Any]) -> Heard:
    status = fields_of(task.get("status"))
    artifacts = [part for artifact in items_of(task.get("artifacts")) for part in _parts(fields_of(artifact))]
    return Heard(
        state=_state(text_of(status.get("state"))),
        task_id=text_of(task.get("id")),
        context_id=text_of(task.get("contextId")),
        parts=artifacts or _last_words(task),
        status=_parts(fields_of(status.get("message"))),
    )


def _state(told: str) -> str:
    return told.lower().removeprefix("task_state_").replace("_", "-")


def _last_words(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of a task without artifacts and without a word on its state: what the agent said last."""
    if fields_of(task.get("status")).get("message"):
        return []
    said = [fields_of(message) for message in items_of(task.get("history"))]
    return next((_parts(each) for each in reversed(said) if text_of(each.get("role")).lower().endswith("agent")), [])


def _parts(of: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for part in items_of(of.get("parts")) if isinstance(part, Mapping)]


# -- as a result -----------------------------------------------------------------------------------


def result_of(said: Heard) -> Result:
    """A settled message or task as the result of a tool."""
    content = [item for part in (*said.parts, *said.status) for item in _content(part)]
    ids = {"taskId": said.task_id, "contextId": said.context_id, "state": said.state}
    result: dict[str, Any] = {
        "content": content,
        "_meta": {META: {name: value for name, value in ids.items() if value}},
    }
    data = [fields_of(part.get("data")) for part in said.parts if isinstance(part.get("data"), Mapping)]
    if len(data) == 1:
        result["structuredContent"] = data[0]
    if said.state in _WAITING:
        content.append(text(_how_to_go_on(said)))
    if said.state in _ENDED_BADLY:
        content.insert(0, text(_why_not(said.state)))
        result["isError"] = True
    if not content:
        content.append(text("The agent has done it, and says nothing of it."))
    return result


def _how_to_go_on(said: Heard) -> str:
    ids = {TASK: said.task_id, CONTEXT: said.context_id}
    given = ", ".join(f"{name}={json.dumps(value)}" for name, value in ids.items() if value)
    return f"The agent asks for more before it goes on. Answer by calling this tool again with {given}."


def _why_not(state: str) -> str:
    if state == "auth-required":
        return "The agent asks for a login before it goes on: write `auth` for it into the services file."
    return f"The agent's task ended as {state}."


def _content(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A part in either dialect."""
    file = fields_of(part.get("file"))
    media = text_of(part.get("mediaType")) or text_of(file.get("mimeType"))
    name = text_of(part.get("filename")) or text_of(file.get("name"))
    if isinstance(part.get("text"), str):
        yield text(part["text"])
    elif isinstance(encoded := part.get("raw") or file.get("bytes"), str):
        yield _file(encoded, media, name)
    elif address := text_of(part.get("url")) or text_of(file.get("uri")):
        link = {"type": "resource_link", "uri": address, "name": name or address}
        yield {**link, "mimeType": media} if media else link
    elif "data" in part:
        yield text(json.dumps(part["data"], ensure_ascii=False))


def _file(encoded: str, media: str, name: str) -> dict[str, Any]:
    kind = media.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": encoded, "mimeType": media}
    address = f"waygraph:answer/{quote(name or 'file', safe='')}"
    held = {"uri": address, "mimeType": media or "application/octet-stream", "blob": encoded}
    return {"type": "resource", "resource": held}
