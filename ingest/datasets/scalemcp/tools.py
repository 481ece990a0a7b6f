"""The five tools of a company, and the agents that offer them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args

from waygraph.ingest.datasets.scalemcp.companies import Company
from waygraph.ingest.datasets.scalemcp.data import read_yaml

Kind = Literal["current_stock_price", "stock_price_history", "analyst_price_targets", "revenue", "net_income"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Layout = Literal["tools", "companies"]
"""An agent for each tool, as in the paper, or for each company."""
MOST_QUESTIONS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTemplate:
    """Texts hold `{company}`; `questions` are those that may be embedded with the tool."""

    title: str
    description: str
    properties: Mapping[str, Any]
    questions: tuple[str, ...]
    required: tuple[str, ...] = field(default=())


@cache
def tool_templates() -> Mapping[Kind, ToolTemplate]:
    told = read_yaml("tools.yaml")
    return {
        kind: ToolTemplate(
            **{
                **told[kind],
                "questions": tuple(told[kind]["questions"]),
                "required": tuple(told[kind].get("required", ())),
            }
        )
        for kind in KINDS
    }


def tool_name(company: Company, kind: Kind) -> str:
    return f"get_{company.slug}_{kind}"


def agent_key(company: Company, kind: Kind, layout: Layout) -> str:
    return f"{company.slug}.{kind}" if layout == "tools" else company.slug


def tool_key(company: Company, kind: Kind, layout: Layout) -> str:
    """`agent/tool`, as datasets write it."""
    return f"{agent_key(company, kind, layout)}/{tool_name(company, kind)}"


def agents(companies: Sequence[Company], layout: Layout, questions: int) -> Iterator[dict[str, Any]]:
    """The lines of agents.jsonl; each tool has its first `questions` synthetic questions."""
    for company in companies:
        tools = {kind: _tool(company, kind, questions) for kind in KINDS}
        if layout == "companies":
            yield _agent(company.slug, company.name, _profile(company), list(tools.values()))
            continue
        for kind, tool in tools.items():
            title = tool_templates()[kind].title.format(company=company.name)
            yield _agent(agent_key(company, kind, layout), title, tool["description"], [tool])


def questions_of(company: Company, kind: Kind, count: int) -> list[str]:
    """The company by its name, its ticker and its alias in turn (the paper's section 4.1.1)."""
    asked = tool_templates()[kind].questions[:count]
    return [text.format(company=company.calls[at % len(company.calls)]) for at, text in enumerate(asked)]


def _profile(company: Company) -> str:
    sector = f", {company.sector}" if company.sector else ""
    told = ", ".join(kind.replace("_", " ") for kind in KINDS)
    return f"Financial metrics of {company.full_name}{sector}: {told}."


def _agent(key: str, name: str, description: str, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"id": key, "name": name, "kind": "mcp_server", "description": description, "tools": tools}


def _tool(company: Company, kind: Kind, questions: int) -> dict[str, Any]:
    template = tool_templates()[kind]
    schema: dict[str, Any] = {"type": "object", "properties": template.properties}
    if template.required:
        schema["required"] = list(template.required)
    asked = questions_of(company, kind, questions)
    return {
        "name": tool_name(company, kind),
        "description": template.description.format(company=company.full_name),
        "inputSchema": schema,
        **({"questions": asked} if asked else {}),
    }
