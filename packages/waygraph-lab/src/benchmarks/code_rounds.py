"""Tasks that need 5 to 20 calls of real servers: rounds and tokens by `use_tool`, and by one piece of `run_code`.

A task is Python over `call(name, params)`. The sandbox runs it whole. Beside it the same Python runs here, and each
`call` is a round of `use_tool`. No model takes part: what it would write and read is counted.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import from_thread, to_thread
from mcp import Client

from benchmarks.gateway.host import Host, WrongAnswer, open_host, stdio_session, text_of
from benchmarks.gateway.tokens import Counter, as_mcp, open_counter
from benchmarks.processes import waygraph_command
from benchmarks.record import PROJECT, Measure, Result, Target
from benchmarks.world import World
from waygraph_lab.evaluation.compare import markdown_table

NAME = "code_rounds"
SIZES, QUICK_SIZES = (5, 8, 12, 20), (5,)
"""Calls of a task."""
MOST_SENT = Target(bound="at_most", value=0.2)
"""Of the tokens by use_tool."""
NOTES = (
    "Compact JSON, tools found before. `sent`: tokens of all requests to a model, each with the list of tools and all "
    "turns before, and of what it writes. `once`: each text counted once, as with a cache that costs nothing.",
    "The results of a task stay in the sandbox: what it returns is what the user asked for. A model that makes "
    "independent calls in one turn sends less by use_tool than is counted here, and never less than `once`.",
)
_SCRIPTS: Mapping[str, tuple[str, str]] = {
    "events": (
        "How many appointments named review are there on these {count} days from 2026-03-01?",
        "dates = [f'2026-03-{{day:02}}' for day in range(1, {count} + 1)]\n"
        "events = [each for date in dates for each in call('calendar__list_events', {{'date': date}})]\n"
        "answer = len([each for each in events if each['title'] == 'review'])",
    ),
    "mails": (
        "Which subjects did the {count} people p1 to p{count} write about, and how often?",
        "counts = {{}}\n"
        "for number in range(1, {count} + 1):\n"
        "    for mail in call('mail__search_mail', {{'query': f'p{{number}}@example.org'}}):\n"
        "        counts[mail['subject']] = counts.get(mail['subject'], 0) + 1\n"
        "answer = counts",
    ),
    "queries": (
        "Which of the {count} shops s1 to s{count} sold most in the database's table sales?",
        "sums = {{}}\n"
        "for number in range(1, {count} + 1):\n"
        "    statement = f\"SELECT amount FROM sales WHERE shop = 's{{number}}'\"\n"
        "    sums[f's{{number}}'] = sum(row[0] for row in call('database__read_query', {{'query': statement}}))\n"
        "answer = max(sums, key=lambda shop: sums[shop])",
    ),
    "weather": (
        "On which of the first {count} days of January 2026 did it snow in Oslo?",
        "dates = [f'2026-01-{{day:02}}' for day in range(1, {count} + 1)]\n"
        "texts = [call('weather__get_history', {{'city': 'Oslo', 'date': date}}) for date in dates]\n"
        "answer = [date for date, text in zip(dates, texts) if text.endswith('snow')]",
    ),
    "steps": (
        "Follow the {count} mails from m1 on: each names the next one. What does the last say?",
        "at = 'm1'\n"
        "for _ in range({count}):\n"
        "    found = call('mail__search_mail', {{'query': f'step {{at}}.'}})[0]\n"
        "    at = found['body'].split()[-1]\n"
        "answer = at",
    ),
}


@dataclass(frozen=True, slots=True)
class Task:
    """`code` leaves its answer in a variable of that name."""

    name: str
    calls: int
    text: str
    code: str


@dataclass(slots=True)
class Tally:
    """What a model reads before its first word, what it writes and then reads in each round."""

    base: int
    turns: list[tuple[int, int]] = field(default_factory=list)
    """Tokens that it wrote, and that came back."""

    @property
    def once(self) -> int:
        return self.base + sum(map(sum, self.turns))

    @property
    def sent(self) -> int:
        before = [sum(map(sum, self.turns[:at])) for at in range(len(self.turns))]
        return sum(self.base + earlier + wrote for earlier, (wrote, _) in zip(before, self.turns, strict=True))


def tasks(sizes: Sequence[int]) -> list[Task]:
    return [
        Task(f"{name}, {count}", count, text.format(count=count), code.format(count=count))
        for name, (text, code) in _SCRIPTS.items()
        for count in sizes
    ]


def run(world: World) -> Result:
    counter = open_counter(world)
    with open_host(world, ()) as host:
        fill_servers(host)
        rows = anyio.run(measure, host, counter, tasks(QUICK_SIZES if world.quick else SIZES))
    return Result(
        name=NAME,
        embedder="",
        measures=list(_measures(rows)),
        notes=NOTES,
        details={"vocabulary": counter.vocabulary, "rows": rows},
    )


def fill_servers(host: Host) -> None:
    """The servers with what the tasks ask for."""
    folder = host.folder
    events = [
        {"id": f"ev{day}-{hour}", "title": title, "date": f"2026-03-{day:02}", "time": f"{hour}:00", "state": "planned"}
        for day in range(1, 21)
        for hour, title in enumerate(("review", "lunch with the harbour office", "call", "planning")[: 2 + day % 3], 9)
    ]
    subjects = ("tides", "invoices of the quarter", "the new pier")
    mails = [
        {"id": f"ma{number}-{at}", "to": f"p{number}@example.org", "subject": subject, "body": "As agreed. " * 12}
        for number in range(1, 21)
        for at, subject in enumerate(subjects[: 1 + number % 3])
    ]
    mails += [{"id": f"st{at}", "subject": f"step m{at}.", "body": f"go on with m{at + 1}"} for at in range(1, 21)]
    (folder / "calendar.json").write_text(json.dumps({"events": events}))
    (folder / "mail.json").write_text(json.dumps({"mails": mails}))
    _fill_database(folder / "database.db")
    names = ("calendar", "mail", "database", "weather")
    arguments = {name: ["-m", "benchmarks.loop.servers", name, str(folder)] for name in names}
    entries = {name: {"command": sys.executable, "args": each} for name, each in arguments.items()}
    host.ingest("servers", {name: {**entry, "cwd": str(PROJECT)} for name, entry in entries.items()})


def _fill_database(path: Path) -> None:
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sales (shop TEXT, amount INTEGER)")
        rows = [(f"s{shop}", (shop * 37 + at * 11) % 90) for shop in range(1, 21) for at in range(12)]
        connection.executemany("INSERT INTO sales VALUES (?, ?)", rows)
    connection.close()


async def measure(host: Host, counter: Counter, chosen: Sequence[Task]) -> list[dict[str, Any]]:
    """A row a task. Raises WrongAnswer where the two ways do not come to the same."""
    rows = []
    environ = host.environ() | {"WAYGRAPH_RUN_CODE": "true"}
    command = waygraph_command("--registry", str(host.registry), "mcp")
    async with stdio_session(command, host.folder / "mcp.log", environ) as client:
        listed = {tool.name: counter.count(json.dumps(as_mcp(tool))) for tool in (await client.list_tools()).tools}
        base = sum(listed.values()) + counter.count(client.instructions or "")
        for task in chosen:
            text = counter.count(task.text)
            code, calls = Tally(base + text), Tally(base - listed["run_code"] + text)
            by_code = await _run_code(client, counter, task, code)
            by_calls = await to_thread.run_sync(partial(_run_here, client, counter, task, calls))
            if by_code != json.loads(json.dumps(by_calls)):
                raise WrongAnswer(f"{task.name}: {by_code!r} by run_code, {by_calls!r} by use_tool")
            rows.append(_row(task, calls, code))
    return rows


async def _run_code(client: Client, counter: Counter, task: Task, tally: Tally) -> Any:
    arguments = {"code": f"{task.code}\nanswer"}
    result = await client.call_tool("run_code", arguments)
    if result.is_error:
        raise WrongAnswer(f"{task.name}: {text_of(result)}")
    words = text_of(result)
    tally.turns += [(counter.count(json.dumps(arguments)), counter.count(words)), (counter.count(words), 0)]
    return words if words[:1] not in "[{0123456789" else json.loads(words)


def _run_here(client: Client, counter: Counter, task: Task, tally: Tally) -> Any:
    """In a thread: each call of the code goes through `use_tool`."""
    names: dict[str, Any] = {"call": partial(_use_tool, client.call_tool, counter, tally)}
    exec(task.code, names)  # noqa: S102 - it stands above
    tally.turns.append((counter.count(json.dumps(names["answer"])), 0))
    return names["answer"]


def _use_tool(call: Callable[..., Any], counter: Counter, tally: Tally, name: str, params: Mapping[str, Any]) -> Any:
    arguments = {"name": name, "params": params}
    result = from_thread.run(call, "use_tool", arguments)
    words = text_of(result)
    tally.turns.append((counter.count(json.dumps(arguments)), counter.count(words)))
    try:
        return json.loads(words)
    except ValueError:
        return words


def _row(task: Task, calls: Tally, code: Tally) -> dict[str, Any]:
    return {
        "task": task.name,
        "calls": task.calls,
        "rounds, use_tool": len(calls.turns),
        "rounds, run_code": len(code.turns),
        "sent, use_tool": calls.sent,
        "sent, run_code": code.sent,
        "once, use_tool": calls.once,
        "once, run_code": code.once,
    }


def _measures(rows: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    for size in (0, *sorted({row["calls"] for row in rows})):
        some = [row for row in rows if size in (0, row["calls"])]
        title = f"{size} calls" if size else f"{len(rows)} tasks"
        for what in ("rounds", "sent", "once"):
            by_calls, by_code = (sum(row[f"{what}, {way}"] for row in some) for way in ("use_tool", "run_code"))
            target = MOST_SENT if what == "sent" and not size else None
            name = f"{title}: {what} by run_code, of those by use_tool"
            yield Measure(name=name, value=round(by_code / by_calls, 3), unit="share", target=target)


def tables_of(details: Mapping[str, Any]) -> str:
    rows = details["rows"]
    lines = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row.values()] for row in rows]
    return f"Tasks of 5 to 20 calls, tokens by {details['vocabulary']}:\n\n{markdown_table(tuple(rows[0]), lines)}"
