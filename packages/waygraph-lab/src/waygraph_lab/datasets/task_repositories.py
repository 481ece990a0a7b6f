"""Tasks of MCP-Universe and MCPMark, from a checkout of their repository to a folder that `eval` reads.

Both state a task's text and the servers that it needs, and neither its tools: what can be measured is the choice of
servers. Their checkers need the accounts and services of their authors, and are left out.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waygraph.registry.model.errors import InvalidDataset, UnknownName
from waygraph_lab.datasets.conversations import CatalogueNames
from waygraph_lab.datasets.folder import QUERIES, SERVERS
from waygraph_lab.datasets.output_folder import own_folder, write_lines

LEFT_OUT = "left-out.jsonl"
MOST_BYTES = 1 << 20
"""Of one file of a checkout; a task is a few kilobytes."""
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`id`: its place in the checkout. `servers`: by the names that the repository gives them."""

    id: str
    text: str
    servers: tuple[str, ...]
    split: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSet:
    """`launches`: server → its entry of `mcpServers`, where the repository states one that runs on this machine."""

    origin: str
    license: str
    tasks: tuple[Task, ...]
    launches: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksWritten:
    folder: str
    tasks: int
    servers: int
    left_out: Mapping[str, int]


def read_tasks(checkout: Path) -> TaskSet:
    """Raises InvalidDataset if the folder is a checkout of neither."""
    if (universe := checkout / "mcpuniverse").is_dir():
        tasks = tuple(_universe_tasks(universe / "benchmark" / "configs", checkout))
        listed = universe / "mcp" / "configs" / "server_list.json"
        servers = _json(listed) if _is_plain_file(listed) else {}
        return TaskSet(
            origin="SalesforceAIResearch/MCP-Universe", license="Apache-2.0", tasks=tasks, launches=_launches(servers)
        )
    if any((checkout / "tasks").glob("*/**/meta.json")):
        return TaskSet(
            origin="eval-sys/mcpmark",
            license="Apache-2.0",
            tasks=tuple(_mark_tasks(checkout / "tasks")),
            launches={},
        )
    raise InvalidDataset(
        str(checkout), "is no checkout of MCP-Universe (a folder mcpuniverse) or MCPMark (tasks/**/meta.json)"
    )


def write_tasks(
    folder: Path, tasks: TaskSet, source: str, known: CatalogueNames, named: Mapping[str, str]
) -> TasksWritten:
    """Write the tasks whose servers all are in the catalogue `source`, and why others are left out.

    `named`: server of the repository → agent of the catalogue, where their names differ. Raises InvalidDataset, and
    UnknownName for an agent that is not there.
    """
    for server, agent in named.items():
        if agent not in known.agents:
            raise UnknownName("agent", agent, known.agents, some=True, hint=f"It was named for {server!r}.")
    agents = _agents_by_name(known) | dict(named)
    kept = [task for task in tasks.tasks if not _reason(task, agents)]
    reasons = [(task, reason) for task in tasks.tasks if (reason := _reason(task, agents))]
    about = {
        "name": tasks.origin.rpartition("/")[2],
        "origin": tasks.origin,
        "license": tasks.license,
        "catalog": str(Path(source).expanduser().resolve()),
    }
    needed = {server for task in kept for server in task.servers}
    launches = {_agent_of(name, agents): tasks.launches[name] for name in sorted(needed) if name in tasks.launches}
    with own_folder(folder, (QUERIES, LEFT_OUT, SERVERS), about):
        write_lines(folder / QUERIES, (_query(task, agents) for task in kept))
        write_lines(folder / LEFT_OUT, ({"id": task.id, "reason": reason} for task, reason in reasons))
        (folder / SERVERS).unlink(missing_ok=True)
        if launches:
            (folder / SERVERS).write_text(json.dumps({"mcpServers": launches}, indent=1) + "\n", encoding="utf-8")
    return TasksWritten(
        folder=str(folder),
        tasks=len(kept),
        servers=len(needed),
        left_out=dict(Counter(reason for _, reason in reasons).most_common()),
    )


def _agents_by_name(known: CatalogueNames) -> dict[str, str]:
    """Keys of agents as they are written, and as others write them."""
    return {_plain(key): key for key in known.agents} | {key: key for key in known.agents}


def _plain(name: str) -> str:
    """`GitHub MCP Server` and `github` are one name."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word not in {"mcp", "server", ""}]
    return "-".join(words)


def _agent_of(server: str, agents: Mapping[str, str]) -> str:
    """Raises KeyError for a server that the catalogue has not."""
    return agents.get(server) or agents[_plain(server)]


def _reason(task: Task, agents: Mapping[str, str]) -> str:
    if not task.text.strip():
        return "it has no text"
    if not task.servers:
        return "it names no server"
    unknown = sorted(name for name in task.servers if name not in agents and _plain(name) not in agents)
    return f"the catalogue has no {unknown[0]!r}" if unknown else ""


def _query(task: Task, agents: Mapping[str, str]) -> dict[str, Any]:
    gold = [[_agent_of(name, agents)] for name in task.servers]
    return {"id": task.id, "text": task.text, "gold": gold, **({"split": task.split} if task.split else {})}


def _universe_tasks(folder: Path, checkout: Path) -> Iterator[Task]:
    for path in _files(folder, "*.json"):
        record = _json(path)
        if isinstance(record, Mapping) and isinstance(record.get("question"), str):
            stated = record.get("mcp_servers")
            servers = (
                [each.get("name") for each in stated if isinstance(each, Mapping)] if isinstance(stated, list) else []
            )
            yield Task(
                id=str(path.relative_to(checkout).with_suffix("")),
                text=record["question"],
                servers=_names(servers),
                split=path.parent.name,
            )


def _mark_tasks(folder: Path) -> Iterator[Task]:
    """A folder a task: `meta.json` names the servers, `description.md` is the text, the first folder the service."""
    for path in _files(folder, "meta.json"):
        record = _json(path)
        if not isinstance(record, Mapping):
            continue
        description = path.with_name("description.md")
        stated = record.get("mcp")
        yield Task(
            id=str(path.parent.relative_to(folder)),
            text=_text(description) if _is_plain_file(description) else "",
            servers=_names(stated if isinstance(stated, list) else []),
            split=path.relative_to(folder).parts[0],
        )


def _names(stated: Sequence[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in stated if isinstance(name, str) and name))


def _launches(servers: Any) -> dict[str, Mapping[str, Any]]:
    """Entries of `mcpServers`: the list writes `{{NAME}}` where a host's file writes `${NAME}`."""
    listed = servers.items() if isinstance(servers, Mapping) else ()
    return {
        name: json.loads(_PLACEHOLDER.sub(r"${\1}", json.dumps({**entry["stdio"], "env": entry.get("env") or {}})))
        for name, entry in listed
        if isinstance(entry, Mapping) and isinstance(entry.get("stdio"), Mapping)
    }


def _files(folder: Path, pattern: str) -> list[Path]:
    """Those of a stranger's checkout: no link, and none beyond `MOST_BYTES`."""
    return sorted(path for path in folder.rglob(pattern) if _is_plain_file(path))


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= MOST_BYTES


def _json(path: Path) -> Any:
    """Raises InvalidDataset."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidDataset(str(path), f"cannot be read: {error}") from error


def _text(path: Path) -> str:
    """Raises InvalidDataset."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDataset(str(path), f"cannot be read: {error}") from error
