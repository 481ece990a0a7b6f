"""Prompts, resources and templates of servers pass through the gateway, by the rules that hold for tools."""

import json
import sys
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.types import ElicitResult, PromptListChangedNotification, PromptReference, ResourceTemplateReference

from tests.gateway.hosts import Era, Open, Place, error_of, ingest, on_stdio, opened_by, over_http, told
from tests.gateway.programs import library
from tests.service import Served, served
from tests.upstream.served import running
from waygraph.api.mcp import offers, tool_list
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.answering import NO_TAXONOMY

PROGRAM = Path(library.__file__)
DAY = "note://day/{date}{?lang}"
IN_BOOKS = "waygraph://agents/books"
POLICY = """
[[rules]]
match = "annex"
verdict = "deny"
reason = "the annex is shut"

[[rules]]
match = "books/prompt:*"
verdict = "ask"

[[rules]]
match = "books/resource:note://day*"
verdict = "deny"
"""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a server takes long to start."""
    monkeypatch.setattr(offers, "LIST_S", 60.0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """`books` on stdio, in the modern era, and `annex` over HTTP, in the handshake era: the same server."""
    place = Place(tmp_path_factory.mktemp("library"))
    with running(library.app()) as origin:
        books = {"command": sys.executable, "args": [str(PROGRAM)]}
        servers = {"books": books, "annex": {"type": "http", "url": f"{origin}/mcp"}}
        (place.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        assert ingest(place, str(place.folder / "mcp.json")) == 0
        yield place


@pytest.fixture(scope="module")
def service(place: Place) -> Iterator[Served]:
    audit = str(place.folder / "audit.jsonl")
    with served(place.registry, settings=Settings(audit_file=audit)) as running_service:
        yield running_service


@pytest.fixture
def careful(place: Place, tmp_path: Path) -> Iterator[Served]:
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY)
    with served(place.registry, settings=Settings(policy_file=str(policy))) as running_service:
        yield running_service


host_of: Open = over_http


@pytest.fixture(params=["stdio", "http"])
def open_host(request: pytest.FixtureRequest, place: Place, service: Served) -> Open:
    return opened_by(request.param, f"{service.url}/mcp", on_stdio(place))


async def refusal(request: Awaitable[object]) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await request
    return caught.value


async def test_a_host_lists_gets_reads_and_completes(open_host: Open, era: Era) -> None:
    """Of both servers, by addresses that name them; what a server says of itself is as it said it."""
    async with open_host(era) as host:
        can = host.server_capabilities
        assert can.prompts.list_changed
        assert can.resources.list_changed
        assert not can.resources.subscribe
        assert can.completions is not None
        prompts = {prompt.name: prompt for prompt in (await host.list_prompts()).prompts}
        assert list(prompts) == ["annex__haiku", "annex__review", "books__haiku", "books__review"]
        assert prompts["books__haiku"].title == "A short poem"
        assert prompts["annex__review"].arguments[0].required
        listed = [str(resource.uri) for resource in (await host.list_resources()).resources]
        assert listed[0] == "waygraph://capabilities"
        assert f"{IN_BOOKS}/note://map?scale=2#north" in listed
        templates = [each.uri_template for each in (await host.list_resource_templates()).resource_templates]
        assert templates == [f"waygraph://agents/annex/{DAY}", f"{IN_BOOKS}/{DAY}"]

        got = await host.get_prompt("annex__review", {"topic": "the tide"})
        assert got.messages[0].content.text == "Review the tide."
        assert got.meta["waygraph/agent"] == "annex"
        read = (await host.read_resource(listed[-1])).contents[0]
        assert (str(read.uri), read.text) == (listed[-1], "read note://tides")
        picture = (await host.read_resource(f"{IN_BOOKS}/note://map?scale=2#north")).contents[0]
        assert picture.blob == "aGk="
        day = (await host.read_resource(f"{IN_BOOKS}/note://day/2026-11-25?lang=en")).contents[0]
        assert day.text == "read note://day/2026-11-25?lang=en"

        ref = PromptReference(type="ref/prompt", name="books__review")
        completed = await host.complete(ref, {"name": "topic", "value": "t"})
        assert completed.completion.values[0] == "review topic=t0"
        template = ResourceTemplateReference(type="ref/resource", uri=templates[1])
        completed = await host.complete(template, {"name": "date", "value": "2"})
        assert completed.completion.values[0] == f"{DAY} date=20"


async def test_errors_say_whose_they_are(service: Served, era: Era) -> None:
    """What a server says begins with its id, and a field `by` is not the server's to fill."""
    async with host_of(f"{service.url}/mcp", era) as host:
        theirs = (await refusal(host.get_prompt("books__sonata"))).error
        assert theirs.message == "The tool books/prompt:sonata says, not the gateway: no prompt sonata"
        assert (theirs.code, theirs.data) == (-32602, {"by": "books/prompt:sonata"})
        lied = (await refusal(host.get_prompt("books__haiku"))).error
        assert lied.data["by"] == "gateway"
        assert "books: its answer" in lied.message
        for request in (
            host.get_prompt("vault__x"),
            host.get_prompt("x"),
            host.read_resource("waygraph://agents/v/a:b"),
        ):
            ours = (await refusal(request)).error
            assert (ours.data["by"], ours.data["code"]) == ("gateway", "unknown-name")


async def test_a_name_that_one_server_has_is_enough(service: Served) -> None:
    async with host_of(f"{service.url}/mcp") as host:
        several = (await refusal(host.read_resource("note://tides"))).error
        assert f"{IN_BOOKS}/note://tides" in several.message
        service.registry.operator.set("annex", hidden=True)
        try:
            read = (await host.read_resource("note://tides")).contents[0]
            assert str(read.uri) == "note://tides"
            day = (await host.read_resource("note://day/today")).contents[0]
            assert day.text == "read note://day/today"
            assert (await host.get_prompt("review", {"topic": "x"})).meta["waygraph/agent"] == "books"
            gone = (await refusal(host.get_prompt("annex__review", {"topic": "x"}))).error
            assert gone.data["code"] == "unknown-name"
        finally:
            service.registry.operator.set("annex", hidden=False)


async def test_a_model_finds_and_reads(service: Served) -> None:
    async with host_of(f"{service.url}/mcp") as host:

        async def found(kind: str, query: str, **more: object) -> Any:
            return told(await host.call_tool("find_tools", {"kind": kind, "query": query, **more}))

        prompts = await found("prompt", "look through my change for mistakes", limit=2)
        assert [prompt["name"] for prompt in prompts["prompts"]] == ["annex__review", "books__review"]
        assert prompts["prompts"][0]["arguments"] == "topic"
        assert (prompts["more"], prompts["suspicious"]) == (2, 2)
        resources = await found("resource", "low water", limit=1)
        [tides] = resources["resources"]
        assert tides["uri"] == "waygraph://agents/annex/note://tides"
        [day] = (await found("template", "day", limit=1))["templates"]
        assert day["uriTemplate"].endswith(DAY)
        read = await host.call_tool("use_tool", {"name": tides["uri"], "params": {}})
        assert read.content[0].resource.text == "read note://tides"
        long = await host.call_tool("use_tool", {"name": f"{IN_BOOKS}/note://long", "params": {}})
        assert long.content[-1].type == "resource_link"
        error = error_of(await host.call_tool("find_tools", {"kind": "spell", "query": "x"}))
        assert "/kind" in str(error["faults"])


async def test_policy_holds(careful: Served) -> None:
    """A denied agent is neither listed nor read; where a person has to agree, one is asked, and for no completion."""
    heard: list[str] = []

    async def agree(_: Any, params: Any) -> ElicitResult:
        heard.append(params.message)
        return ElicitResult(action="accept", content={"run": True})

    async with host_of(f"{careful.url}/mcp", elicitation_callback=agree) as host:
        assert {prompt.name for prompt in (await host.list_prompts()).prompts} == {"books__haiku", "books__review"}
        assert not (await host.list_resource_templates()).resource_templates
        for address in ("waygraph://agents/annex/note://tides", f"{IN_BOOKS}/note://day/x"):
            denied = (await refusal(host.read_resource(address))).error
            assert denied.data["code"] == "not-callable"
        ref = PromptReference(type="ref/prompt", name="books__review")
        assert not (await host.complete(ref, {"name": "topic", "value": "t"})).completion.values
        assert not heard
        await host.get_prompt("books__review", {"topic": "sand"})
        assert "books/prompt:review" in heard[0]
        assert "sand" in heard[0]
    async with host_of(f"{careful.url}/mcp") as host:
        needs = (await refusal(host.get_prompt("books__review", {"topic": "sand"}))).error
        assert needs.data["code"] == "needs-consent"


async def test_each_request_to_a_server_is_one_line_of_the_audit(place: Place, service: Served) -> None:
    before = len(place.audit) if (place.folder / "audit.jsonl").exists() else 0
    async with host_of(f"{service.url}/mcp") as host:
        await host.list_prompts()
        await host.get_prompt("books__review", {"topic": "a secret"})
        await refusal(host.read_resource("waygraph://agents/nobody/note://tides"))
    got, refused = place.audit[before:]
    assert (got["action"], got["target"], got["outcome"]) == ("call", "books/prompt:review", "ok")
    assert got["parameters"] == ["topic"]
    assert refused["outcome"] == "refused"
    assert "a secret" not in str(got)


async def test_a_server_that_hangs_ends_with_its_deadline(service: Served) -> None:
    async with host_of(f"{service.url}/mcp") as host:
        late = (await refusal(host.get_prompt("books__hang", meta={"waygraph/timeout_s": 1}))).error
        assert late.data["code"] == "call-timed-out"


async def test_a_server_that_does_not_start_costs_only_its_own(place: Place, tmp_path: Path) -> None:
    """Its place in a list says so."""
    both = Place(tmp_path)
    books = {"command": sys.executable, "args": [str(PROGRAM)]}
    shut = books | {"env": {"LIBRARY_IS_SHUT": "${SHUT:-}"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"books": books, "shut": shut}}))
    assert ingest(both, str(tmp_path / "mcp.json")) == 0
    with served(both.registry, environ={"SHUT": "1"}) as service:
        async with host_of(f"{service.url}/mcp") as host:
            listed = await host.list_prompts()
            assert {prompt.name for prompt in listed.prompts} == {"books__haiku", "books__review"}
            assert listed.meta["waygraph/unlisted"] == {"failed": ["shut"], "suspicious": 1}


async def test_a_server_that_has_none_is_asked_once(
    toolbox: Place, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it may rest; a server that has some is asked as before."""
    asked: list[str] = []
    ask_list = offers._ask_list

    async def note_and_ask(*about: Any) -> Any:
        asked.append(about[-1].id)
        return await ask_list(*about)

    monkeypatch.setattr(offers, "_ask_list", note_and_ask)
    for registry in (toolbox.registry, place.registry):
        with served(registry) as service:
            async with host_of(f"{service.url}/mcp") as host:
                for _ in range(3):
                    await host.list_prompts()
    assert (asked.count("box"), asked.count("books")) == (1, 3)


async def test_a_server_tells_no_host_the_login_that_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "sesame-0123456789")
    place = Place(tmp_path)
    books = {"command": sys.executable, "args": [str(PROGRAM)], "env": {"LIBRARY_TOKEN": "${TOKEN}"}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"books": books}}))
    assert ingest(place, str(tmp_path / "mcp.json")) == 0
    with served(place.registry, environ={"TOKEN": "sesame-0123456789"}) as service:
        async with host_of(f"{service.url}/mcp") as host:
            told_prompts = {prompt.name: prompt.description for prompt in (await host.list_prompts()).prompts}
            assert "It is ***." in told_prompts.values()
            assert (await host.read_resource(f"{IN_BOOKS}/note://token")).contents[0].text == "It is ***."


async def test_hosts_are_told_when_a_late_server_has_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, slowly = Place(tmp_path), tmp_path / "slow"
    books = {"command": sys.executable, "args": [str(PROGRAM)], "env": {"LIBRARY_IS_SLOW": str(slowly)}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"books": books}}))
    assert ingest(slow, str(tmp_path / "mcp.json")) == 0
    slowly.touch()
    monkeypatch.setattr(offers, "LIST_S", 0.5)
    changed = anyio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, PromptListChangedNotification):
            changed.set()

    with served(slow.registry) as service:
        async with host_of(f"{service.url}/mcp", "legacy", message_handler=heard) as host:
            assert (await host.list_prompts()).meta["waygraph/unlisted"] == {"failed": ["books"]}
            with anyio.fail_after(30):
                await changed.wait()
            assert "books__review" in str(await host.list_prompts())


async def test_who_may_not_see_an_agent_learns_of_none_of_its_prompts(place: Place, tmp_path: Path) -> None:
    with served(place.registry, auth=True, folder=tmp_path) as service:
        service.registry.operator.set("annex", visible_to=["staff"])
        try:
            async with host_of(f"{service.url}/mcp", key=service.key(groups=("staff",))) as host:
                assert "annex" in str(await host.list_prompts())
                assert (await host.get_prompt("annex__review", {"topic": "x"})).messages
            async with host_of(f"{service.url}/mcp", key=service.key()) as host:
                listed = str(await host.list_prompts()) + str(await host.list_resources())
                found = await host.call_tool("find_tools", {"kind": "prompt", "query": "review"})
                assert "annex" not in listed + str(found)
                hidden, absent = [
                    (await refusal(host.get_prompt(f"{agent}__review", {"topic": "x"}))).error
                    for agent in ("annex", "xxxxx")
                ]
                assert hidden.message == absent.message.replace("xxxxx", "annex")
                assert hidden.data == absent.data
            async with host_of(f"{service.url}/mcp", key=service.key("route")) as host:
                assert not (await host.list_prompts()).prompts
                refused = error_of(await host.call_tool("find_tools", {"kind": "prompt", "query": "review"}))
                got = (await refusal(host.get_prompt("books__review", {"topic": "x"}))).error
                assert (refused["code"], got.data["code"]) == ("not-allowed", "not-allowed")
        finally:
            service.registry.operator.set("annex", everyone=True)


async def test_of_many_servers_the_pinned_ones_are_asked(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search asks those that fit it."""
    monkeypatch.setattr(offers, "MOST_SERVERS", 1)
    monkeypatch.setattr(offers, "FOUND_AT", 1)
    service.registry.operator.set("books", pinned=True)
    try:
        async with host_of(f"{service.url}/mcp") as host:
            listed = await host.list_prompts()
            assert {prompt.name for prompt in listed.prompts} == {"books__haiku", "books__review"}
            assert listed.meta["waygraph/unlisted"]["not_asked"] == 1
            found = told(await host.call_tool("find_tools", {"kind": "prompt", "query": "annex"}))
            assert {prompt["name"].partition("__")[0] for prompt in found["prompts"]} <= {"annex", "books"}
    finally:
        service.registry.operator.set("books", pinned=False)


async def test_servers_that_no_walk_chose_are_asked_and_that_is_said(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers, "MOST_SERVERS", 1)
    with served(place.registry, settings=Settings(walk="openai:m")) as service:
        async with host_of(f"{service.url}/mcp") as host:
            found = told(await host.call_tool("find_tools", {"kind": "prompt", "query": "annex"}))
            [notice] = [each for each in found["notices"] if each["code"] == "not_walked"]
            assert (bool(found["prompts"]), notice["text"]) == (True, f"Not walked: {NO_TAXONOMY}.")


async def test_a_toolset_has_the_prompts_of_whole_agents_alone(place: Place) -> None:
    with served(place.registry) as service:
        service.registry.operator.set_toolset("pages", tools=["annex/grow"], agents=["books"])
        async with host_of(f"{service.url}/pages/mcp") as host:
            assert {prompt.name for prompt in (await host.list_prompts()).prompts} == {"books__haiku", "books__review"}
            assert (await refusal(host.get_prompt("annex__review", {"topic": "x"}))).error.data[
                "code"
            ] == "unknown-name"
            assert (await host.read_resource("note://tides")).contents


async def test_hosts_are_told_when_a_servers_list_changes(
    place: Place, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_list, "LOOK_S", 0.05)
    changed = anyio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, PromptListChangedNotification):
            changed.set()

    async def grow(host: Any) -> None:
        assert "annex__sonnet" not in str(await host.list_prompts())
        await host.call_tool("annex__grow", {})
        with anyio.fail_after(30):
            await changed.wait()
        assert "annex__sonnet" in str(await host.list_prompts())

    with served(place.registry) as service:
        library.grown[:] = library.PROMPTS
        async with host_of(f"{service.url}/mcp", era, message_handler=heard) as host:
            if era == "legacy":
                await grow(host)
                return
            async with host.listen(prompts_list_changed=True) as events, anyio.create_task_group() as tasks:

                async def follow() -> None:
                    async for _ in events:
                        changed.set()

                tasks.start_soon(follow)
                await grow(host)
                tasks.cancel_scope.cancel()


async def test_pages_of_two_servers_with_one_address_both_reach_the_host(tmp_path: Path) -> None:
    """Each `ui://` resource is listed by an address of its own, and read as its server has it; its own is ambiguous."""
    program = {"command": sys.executable, "args": [str(PROGRAM)]}
    servers = {name: {**program, "env": {"LIBRARY_PAGE": f"<p>{name}</p>"}} for name in ("east", "west")}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    place = Place(tmp_path)
    assert ingest(place, str(tmp_path / "mcp.json")) == 0
    with served(place.registry) as running_service:
        async with host_of(f"{running_service.url}/mcp") as host:
            listed = {str(each.uri): each for each in (await host.list_resources()).resources}
            for name in servers:
                address = f"waygraph://agents/{name}/ui://shelf"
                assert listed[address].mime_type == "text/html;profile=mcp-app"
                (page,) = (await host.read_resource(address)).contents
                assert (page.text, page.mime_type) == (f"<p>{name}</p>", "text/html;profile=mcp-app")
            assert "east/ui://shelf" in str(await refusal(host.read_resource("ui://shelf")))
