"""The server that the conformance suite of MCP asks for: its tools, prompts and resources, of the handshake era, so
that the gateway before it translates for hosts of both eras.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import types as t
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata

from tests.upstream.served import Asgi
from waygraph.api.mcp.sessions import as_request
from waygraph.ingest.upstream.connection import Question

Context = ServerRequestContext[Any, Any]
Content = list[dict[str, Any]]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
NAME, COLOR, OK = {"name": {"type": "string"}}, {"color": {"type": "string"}}, {"ok": {"type": "boolean"}}


def text(said: object) -> dict[str, Any]:
    return {"type": "text", "text": str(said)}


def image() -> dict[str, Any]:
    return {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def resource(uri: str, said: str, kind: str = "text/plain") -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


async def ask(ctx: Context, question: Question, params: dict[str, Any]) -> dict[str, Any]:
    request, kind = as_request(question, params)
    of_this_call = ServerMessageMetadata(related_request_id=ctx.request_id)
    answer = await ctx.session.send_request(request, kind, metadata=of_this_call)
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


async def elicit(ctx: Context, message: str, properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return await ask(ctx, "elicitation/create", {"mode": "form", "message": message, "requestedSchema": schema})


async def sample(ctx: Context, prompt: str) -> Content:
    messages = [{"role": "user", "content": text(prompt)}]
    answer = await ask(ctx, "sampling/createMessage", {"messages": messages, "maxTokens": 100})
    return [text(f"LLM response: {answer['content']['text']}")]


async def log_steps(ctx: Context, _: dict[str, Any]) -> Content:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        params = t.LoggingMessageNotificationParams(level="info", data=said)
        await ctx.session.send_notification(t.LoggingMessageNotification(params=params), ctx.request_id)
        await anyio.sleep(0.05)
    return [text("logged")]


async def report_progress(ctx: Context, _: dict[str, Any]) -> Content:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await anyio.sleep(0.05)
    return [text("done")]


async def elicit_user(ctx: Context, arguments: dict[str, Any]) -> Content:
    user = {"username": {"type": "string"}, "email": {"type": "string"}}
    return [text(f"User response: {await elicit(ctx, arguments['message'], user)}")]


async def elicit_defaults(ctx: Context, _: dict[str, Any]) -> Content:
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return [text(f"Elicitation completed: {await elicit(ctx, 'Defaults', properties)}")]


async def elicit_enums(ctx: Context, _: dict[str, Any]) -> Content:
    plain = {"type": "string", "enum": ["option1", "option2", "option3"]}
    titled = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
    properties = {
        "untitledSingle": plain,
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": plain},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return [text(f"Elicitation completed: {await elicit(ctx, 'Choices', properties)}")]


async def greet(ctx: Context, _: dict[str, Any]) -> Content:
    return [text(f"Hello, {(await elicit(ctx, 'What is your name?', NAME))['content']['name']}!")]


async def confirm(ctx: Context, _: dict[str, Any]) -> Content:
    return [text(f"state-ok {await elicit(ctx, 'Please confirm', OK)}")]


async def ask_twice(ctx: Context, _: dict[str, Any]) -> Content:
    first = await elicit(ctx, "Step 1: What is your name?", NAME)
    return [text(first), text(await elicit(ctx, "Step 2: What is your favorite color?", COLOR))]


async def change_prompts(ctx: Context, _: dict[str, Any]) -> Content:
    await ctx.session.send_prompt_list_changed()
    return [text("changed")]


async def fail(_: Context, __: dict[str, Any]) -> Content:
    raise ValueError("This tool intentionally returns an error for testing")


def telling(*content: dict[str, Any]) -> Callable[[Context, dict[str, Any]], Awaitable[Content]]:
    async def tell(_: Context, __: dict[str, Any]) -> Content:
        return list(content)

    return tell


def sampling(prompt: str = "") -> Callable[[Context, dict[str, Any]], Awaitable[Content]]:
    async def ask_model(ctx: Context, arguments: dict[str, Any]) -> Content:
        return await sample(ctx, prompt or arguments["prompt"])

    return ask_model


MIXED = resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
EMBEDDED = resource("test://embedded-resource", "This is an embedded resource content.")
TOOLS: dict[str, Callable[[Context, dict[str, Any]], Awaitable[Content]]] = {
    "test_simple_text": telling(text("This is a simple text response for testing.")),
    "test_image_content": telling(image()),
    "test_audio_content": telling({"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}),
    "test_embedded_resource": telling(EMBEDDED),
    "test_multiple_content_types": telling(text("Multiple content types test:"), image(), MIXED),
    "test_tool_with_logging": log_steps,
    "test_tool_with_progress": report_progress,
    "test_error_handling": fail,
    "test_sampling": sampling(),
    "test_elicitation": elicit_user,
    "test_elicitation_sep1034_defaults": elicit_defaults,
    "test_elicitation_sep1330_enums": elicit_enums,
    "test_input_required_result_elicitation": greet,
    "test_input_required_result_sampling": sampling("What is the capital of France?"),
    "test_input_required_result_request_state": confirm,
    "test_input_required_result_tampered_state": confirm,
    "test_input_required_result_multi_round": ask_twice,
    "test_input_required_result_capabilities": sampling("Anything"),
    "test_trigger_prompt_change": change_prompts,
}
ARGUMENTS = {"test_sampling": "prompt", "test_elicitation": "message"}


def tool(name: str) -> t.Tool:
    taken = {ARGUMENTS[name]: {"type": "string"}} if name in ARGUMENTS else {}
    schema = {"type": "object", "properties": taken, "required": list(taken)}
    hints = t.ToolAnnotations(read_only_hint=True)
    return t.Tool(name=name, description=name.replace("_", " "), input_schema=schema, annotations=hints)


async def list_tools(_: Context, __: Any) -> t.ListToolsResult:
    return t.ListToolsResult(tools=[tool(name) for name in TOOLS])


async def call_tool(ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
    try:
        content = await TOOLS[params.name](ctx, dict(params.arguments or {}))
    except ValueError as error:
        return t.CallToolResult.model_validate({"content": [text(error)], "isError": True})
    return t.CallToolResult.model_validate({"content": content})


async def ask_context(ctx: Context, _: dict[str, str]) -> Content:
    context = {"context": {"type": "string"}}
    return [text(await elicit(ctx, "What context should the prompt use?", context))]


async def embed(_: Context, given: dict[str, str]) -> Content:
    said = resource(given["resourceUri"], "Embedded resource content for testing.")
    return [said, text("Please process the embedded resource above.")]


async def name_arguments(_: Context, given: dict[str, str]) -> Content:
    return [text(f"Prompt with arguments: arg1={given['arg1']!r}, arg2={given['arg2']!r}")]


PROMPTS: dict[str, tuple[Callable[[Context, dict[str, str]], Awaitable[Content]], tuple[str, ...]]] = {
    "test_simple_prompt": (telling(text("This is a simple prompt for testing.")), ()),
    "test_prompt_with_arguments": (name_arguments, ("arg1", "arg2")),
    "test_prompt_with_embedded_resource": (embed, ("resourceUri",)),
    "test_prompt_with_image": (telling(image(), text("Please analyze the image above.")), ()),
    "test_input_required_result_prompt": (ask_context, ()),
}
CONTENTS: dict[str, dict[str, str]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
}


async def list_prompts(_: Context, __: Any) -> t.ListPromptsResult:
    def prompt(name: str, arguments: tuple[str, ...]) -> t.Prompt:
        taken = [t.PromptArgument(name=each, required=True) for each in arguments]
        return t.Prompt(name=name, description=name.replace("_", " "), arguments=taken)

    return t.ListPromptsResult(prompts=[prompt(name, arguments) for name, (_, arguments) in PROMPTS.items()])


async def get_prompt(ctx: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult:
    content = await PROMPTS[params.name][0](ctx, params.arguments or {})
    return t.GetPromptResult.model_validate({"messages": [{"role": "user", "content": each} for each in content]})


async def list_resources(_: Context, __: Any) -> t.ListResourcesResult:
    return t.ListResourcesResult(resources=[t.Resource(uri=uri, name=uri.partition("//")[2]) for uri in CONTENTS])


async def list_templates(_: Context, __: Any) -> t.ListResourceTemplatesResult:
    template = t.ResourceTemplate(uri_template="test://template/{id}/data", name="data")
    return t.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
    item = params.uri.removeprefix("test://template/").removesuffix("/data")
    filled = {"mimeType": "application/json", "text": f'{{"id":"{item}","templateTest":true}}'}
    content = {"uri": params.uri, **CONTENTS.get(params.uri, filled)}
    return t.ReadResourceResult.model_validate({"contents": [content]})


async def complete(_: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
    return t.CompleteResult(completion=t.Completion(values=[f"{params.argument.value}ing"]))


def app() -> Asgi:
    server = Server[Any](
        "conformance",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_completion=complete,
    )
    inner = server.streamable_http_app()

    async def of_the_handshake_era(scope: Any, receive: Any, send: Any) -> None:
        version = dict(scope.get("headers", ())).get(b"mcp-protocol-version", b"")
        if version < b"2026":
            await inner(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b"Bad Request"})

    return of_the_handshake_era
