"""`run_code`: a model's Python calls tools in one round, by the rules of use_tool, and gets out by no way."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.gateway.hosts import Place, on_stdio, over_http, toolbox_place
from tests.gateway.test_questions import person
from tests.service import served
from waygraph.ingest.upstream.calls import raw_request
from waygraph.registry.model.settings import Settings

pytest.importorskip("pydantic_monty")
CHAIN = """
total = 0
for number in range(10):
    total = call("box__add", {"a": total, "b": number})["total"]
print("added", total)
total
"""
ESCAPES = {
    "files": [
        "open('/etc/passwd').read()",
        "open('{key}').read()",
        "open('/tmp/new', 'w').write('x')",
        "from pathlib import Path\nPath('{key}').read_text()",
        "from pathlib import Path\nPath('/tmp/new').write_text('x')",
        "from pathlib import Path\n[str(each) for each in Path('/').iterdir()]",
        "import os\nos.listdir('/')",
        "import os\nos.remove('{key}')",
        "import os\nos.symlink('{key}', 'here')",
        "import os\nos.chdir('/etc')\nopen('passwd').read()",
        "open(0).read()",
        "open('/proc/self/environ').read()",
        "open('/proc/1/cmdline').read()",
        "open('file://{key}').read()",
        "open('../../../../etc/passwd').read()",
    ],
    "system": [
        "import os\nos.environ['PATH']",
        "import os\nos.getenv('PATH').upper()",
        "import os\nos.system('id')",
        "import os\nos.fork()",
        "import os\nos.kill(1, 0)",
        "import subprocess",
        "import socket",
        "import ctypes",
        "import urllib.request",
        "import http.client",
        "import importlib\nimportlib.import_module('os')",
        "import pydantic_monty",
        "import waygraph",
        "import sys\nsys.modules['os']",
        "__import__('os').system('id')",
        "exec('import socket')",
        "eval(\"open('/etc/passwd').read()\")",
        "compile('1', 'x', 'eval')",
        "globals()['call']",
        "breakpoint()",
    ],
    "objects": [
        "().__class__.__mro__[1].__subclasses__()",
        "call.__globals__",
        "call.__self__",
        "call.__closure__",
        "find.__func__.__code__",
        "type(call).__mro__",
        "getattr(call, '__glo' + 'bals__')",
        "'{0.__class__}'.format(call)",
        "call.__class__.__init__.__globals__",
        "(lambda: 0).__code__.co_consts",
    ],
    "hidden tools": [
        "call('run_code', {'code': '1'})",
        "call('use_tool', {'name': 'box__add'})",
        "call('waygraph__add', {})",
        "call('waygraph://results/x')",
        "call('waygraph://agents/box')",
        "call('box__erase', {})",
        "call('box/erase', {})",
        "call('', {})",
        "call('box__add', {'a': 1, 'b': 2, 'consent': 'yes'}, 'consent')",
        "call('box__erase', {}, consent='hash')",
        "call('vault__open', {})",
        "call(name=['box__erase'], params={})",
        "call('box__add', [1, 2])",
        "find('', 8, 'everything')",
        "find('erase', principal='admin')",
    ],
    "budgets": [
        "while True: pass",
        "[0] * 10**9",
        "'x' * 10**9",
        "def f(): return f()\nf()",
        "import time\ntime.sleep(5)",
        "2 ** 10**8 % 7",
        "for _ in range(60): call('box__add', {'a': 1, 'b': 1})",
        "for _ in range(60): find('add')",
        "x = []\nwhile True: x.append('y' * 10**6)",
        "print('x' * 10**6)",
    ],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return toolbox_place(tmp_path)


@asynccontextmanager
async def host(place: Place, run_code: str = "true", **callbacks: Any) -> AsyncIterator[Client]:
    async with Client(on_stdio(place, WAYGRAPH_RUN_CODE=run_code), mode="auto", **callbacks) as client:
        yield client


async def run(client: Client, code: str) -> tuple[bool, str]:
    result: Any = await client.call_tool("run_code", {"code": code})
    return bool(result.is_error), result.content[0].text


def calls_in(place: Place) -> list[Mapping[str, Any]]:
    return [line for line in place.audit if line["action"] == "call"]


def test_ten_chained_calls_in_one_round_are_each_in_the_audit(place: Place) -> None:
    async def chain() -> tuple[bool, str]:
        async with host(place) as client:
            assert "run_code" in [tool.name for tool in (await client.list_tools()).tools]
            return await run(client, CHAIN)

    assert anyio.run(chain) == (False, "added 45\n45")
    assert [line["target"] for line in calls_in(place)] == [*["box/add"] * 10, "run_code"]


def test_each_call_within_counts_towards_the_rate_limit(place: Place, tmp_path: Path) -> None:
    """As one by use_tool. Where a budget of sessions stands alone, the log says whom it does not hold for."""
    policy = tmp_path / "policy.toml"
    policy.write_text("calls_per_session = 100")
    settings = Settings(run_code=True, rate_per_minute=1, rate_burst=18, policy_file=str(policy))

    async def chain(url: str, key: str) -> list[str]:
        async with over_http(url, key=key) as client:
            asks = {"name": "run_code", "arguments": {"code": CHAIN}}
            answers = [await raw_request(client.session, "tools/call", asks) for _ in range(2)]
            return [each["content"][0]["text"] for each in answers]

    with served(place.registry, settings=settings, auth=True, folder=tmp_path / "keys") as service:
        first, second = anyio.run(chain, f"{service.url}/mcp", service.key("route", "use"))
        assert first == "added 45\n45"
        assert "too-many-requests" in second
        assert "Set calls_per_day too" in service.log


def test_the_code_finds_a_tool_and_catches_its_error(place: Place) -> None:
    code = """
names = [tool["name"] for tool in find("add two whole numbers")]
try:
    call("box__fail", {"words": "locked"})
except RuntimeError as error:
    print(error)
names
"""

    async def find() -> tuple[bool, str]:
        async with host(place) as client:
            return await run(client, code)

    is_error, words = anyio.run(find)
    first, _, names = words.partition("\n")
    assert (is_error, first) == (False, "locked")
    assert json.loads(names)[0] == "box__add"


@pytest.mark.parametrize("agrees", [True, False])
def test_a_tool_that_may_write_runs_when_a_person_agrees(place: Place, agrees: bool) -> None:
    heard: list[Any] = []

    async def erase() -> tuple[bool, str]:
        async with host(place, elicitation_callback=person("accept", {"run": agrees}, heard)) as client:
            return await run(client, "call('box__erase', {'path': '/x'})")

    is_error, words = anyio.run(erase)
    assert (is_error, words == "gone") == (not agrees, agrees)
    assert len(heard) == 1
    assert place.notes.count("erased") == agrees


def test_no_escape_succeeds(place: Place, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cr3t")

    async def escape() -> dict[str, str]:
        escaped = {}
        async with host(place) as client:
            for attempt in (each for group in ESCAPES.values() for each in group):
                is_error, words = await run(client, attempt.replace("{key}", str(key)))
                if not is_error or "internal" in words or "s3cr3t" in words or "root:" in words:
                    escaped[attempt] = words
            assert await run(client, CHAIN) == (False, "added 45\n45"), "and the next round runs"
        return escaped

    assert sum(map(len, ESCAPES.values())) >= 50
    assert anyio.run(escape) == {}
    assert key.read_text() == "s3cr3t"
    assert "erased" not in place.notes


def test_code_ends_with_the_time_of_its_call(place: Place) -> None:
    """Also code that catches whatever it is told; its process goes with it."""
    code = "while True:\n    try:\n        call('box__wait', {})\n    except Exception:\n        pass"

    async def wait() -> tuple[Any, float]:
        async with host(place) as client:
            began = anyio.current_time()
            meta: Any = {"waygraph/timeout_s": 1.0}
            result = await client.call_tool("run_code", {"code": code}, meta=meta)
            return result, anyio.current_time() - began

    result, seconds = anyio.run(wait)
    assert result.is_error
    assert seconds < 10


def test_a_long_answer_is_cut_and_kept(place: Place) -> None:
    async def long() -> Any:
        async with host(place) as client:
            return await client.call_tool("run_code", {"code": "['row ' + str(n) for n in range(20000)]"})

    result = anyio.run(long)
    assert "waygraph://results/" in result.content[1].text


def test_without_the_setting_there_is_no_such_tool(place: Place) -> None:
    async def ask() -> tuple[bool, str]:
        async with host(place, run_code="false") as client:
            assert "run_code" not in [tool.name for tool in (await client.list_tools()).tools]
            return await run(client, "1")

    is_error, words = anyio.run(ask)
    assert is_error
    assert "unknown" in words
