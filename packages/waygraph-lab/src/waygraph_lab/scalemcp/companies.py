"""The companies of a list, and what each is called: name, ticker, alias."""

import csv
import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any, Literal, NamedTuple, get_args

from waygraph.ingest.sources.parse import parse_yaml
from waygraph.registry.model.errors import InvalidDataset


def read_yaml(name: str) -> Any:
    """`name` is relative to this package."""
    return parse_yaml(name, files(__package__).joinpath(*name.split("/")).read_text(encoding="utf-8"))


COLUMNS = ("company", "ticker", "sector")
GENERIC = frozenset(
    "brands co. companies corp. corporation energy enterprises financial global group holding holdings inc. "
    "industries insurance international partners products resources services solutions stores systems technologies "
    "worldwide".split()
)
"""Words that people leave off at the end of a company's name."""
LEAST_ALIAS_CHARS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """`slug`: letters, digits and `_`, no other company's. `ticker` is empty where there is none.

    `calls`: by name, ticker and alias; the name where one is missing or might be another company.
    """

    name: str
    slug: str
    ticker: str
    sector: str
    calls: tuple[str, str, str]

    @property
    def full_name(self) -> str:
        return f"{self.name} ({self.ticker})" if self.ticker else self.name


def read_companies(path: Path) -> tuple[Company, ...]:
    """In the order of the list, a CSV of company, ticker and sector. Raises InvalidDataset, with file and line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(_rows(csv.DictReader(file), path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidDataset(str(path), f"cannot be read: {error}") from error
    aliases = _aliases([row.name for row in rows], {row.name: row.inside for row in rows} | read_yaml("aliases.yaml"))
    bearers = Counter(call.casefold() for row in rows for call in {row.name, row.ticker, aliases.get(row.name, "")})
    return tuple(_company(row, aliases.get(row.name, ""), bearers) for row in rows)


def slug_of(name: str) -> str:
    """`Lowe's` → `lowes`, `Dean Foods Co.` → `dean_foods_co`."""
    return re.sub(r"[\W_]+", "_", re.sub(r"['’.]", "", name.casefold())).strip("_")


class _Row(NamedTuple):
    """`inside`: what stands in brackets behind the name."""

    name: str
    inside: str
    ticker: str
    sector: str


def _company(row: _Row, alias: str, bearers: Mapping[str, int]) -> Company:
    """`bearers`: how many companies answer to a call, folded."""
    other = [call if call and bearers[call.casefold()] == 1 else row.name for call in (row.ticker, alias)]
    return Company(
        name=row.name,
        slug=slug_of(row.name),
        ticker=row.ticker,
        sector=row.sector,
        calls=(row.name, other[0], other[1]),
    )


def _rows(reader: "csv.DictReader[str]", path: Path) -> Iterator[_Row]:
    if set(COLUMNS) - set(reader.fieldnames or ()):
        raise InvalidDataset(f"{path}:1", f"expected the columns {', '.join(COLUMNS)}, found {reader.fieldnames}")
    seen: dict[str, int] = {}
    for row in reader:
        where = f"{path}:{reader.line_num}"
        whole, ticker, sector = (" ".join(html.unescape(row[column] or "").split()) for column in COLUMNS)
        name, _, inside = whole.partition(" (")
        if not (slug := slug_of(name)):
            raise InvalidDataset(where, "a company needs a name")
        if slug in seen:
            raise InvalidDataset(where, f"{name!r} is the company of line {seen[slug]} again")
        seen[slug] = reader.line_num
        yield _Row(name, _short_name(inside.removesuffix(")")), ticker, sector)


def _short_name(inside: str) -> str:
    """What stands in brackets is another name, unless it is a country."""
    return "" if "." in inside else inside


def _aliases(names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """By what is given where no other company's name begins so, else shortened; empty where neither is one's own."""
    return {
        name: alias if (alias := given.get(name, "")) and _is_own(alias, name, names) else shorten_name(name, names)
        for name in names
    }


def shorten_name(name: str, names: Iterable[str]) -> str:
    """The name without generic words at its end, as many as can go while it stays one company's; empty if none can."""
    words, alias = name.split(), ""
    while len(words) > 1 and words[-1].casefold() in GENERIC:
        words.pop()
        short = " ".join(words).removesuffix(" &")
        if len(short) < LEAST_ALIAS_CHARS or not _is_own(short, name, names):
            break
        alias = short
    return alias


def _is_own(alias: str, name: str, names: Iterable[str]) -> bool:
    return not any(_begins(other, alias) for other in names if other != name)


def _begins(name: str, short: str) -> bool:
    return name.casefold() == short.casefold() or name.casefold().startswith(f"{short.casefold()} ")


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


STEPS: Mapping[str, float] = {"d": 0.01, "w": 0.03, "m": 0.07}
"""Timeline → the most that a closing price differs from the one before, as a share."""
CLOSES = 10
YEARS = range(2020, 2025)


class NoValue(Exception):
    """Arguments that no value stands for: its message says what there is."""


def company_value(company: Company, kind: Kind, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the company's name and ticker, and the figures. Raises NoValue."""
    figures = {
        "current_stock_price": _price,
        "stock_price_history": _history,
        "analyst_price_targets": _targets,
        "revenue": _revenue,
        "net_income": _net_income,
    }[kind](company, arguments)
    return {"company": company.name, "ticker": company.ticker, "currency": "USD", **figures}


def _chance(company: Company, what: str) -> Random:
    return Random(sha256(f"{company.slug} {what}".encode()).digest())  # noqa: S311 - not a secret


def _current_price(company: Company) -> float:
    return round(_chance(company, "price").uniform(5, 500), 2)


def _price(company: Company, _: Mapping[str, Any]) -> dict[str, Any]:
    return {"price": _current_price(company)}


def _history(company: Company, arguments: Mapping[str, Any]) -> dict[str, Any]:
    timeline = _choice(arguments, "timeline", STEPS)
    chance, closes = _chance(company, f"history {timeline}"), [_current_price(company)]
    while len(closes) < CLOSES:
        closes.append(round(closes[-1] * (1 + chance.uniform(-1, 1) * STEPS[timeline]), 2))
    return {"timeline": timeline, "closes": closes[::-1]}


def _targets(company: Company, arguments: Mapping[str, Any]) -> dict[str, Any]:
    price, chance = _current_price(company), _chance(company, "targets")
    analysts = sorted(round(price * chance.uniform(0.7, 1.5), 2) for _ in range(7))
    targets = {
        "current": price,
        "low": analysts[0],
        "high": analysts[-1],
        "mean": round(fmean(analysts), 2),
        "median": median(analysts),
    }
    target = _choice(arguments, "target_type", targets)
    return {"target_type": target, "target": targets[target]}


def _choice(arguments: Mapping[str, Any], name: str, choices: Mapping[str, object]) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or value not in choices:
        raise NoValue(f"{name}: expected one of {', '.join(choices)}")
    return value


def _revenues(company: Company) -> dict[int, int]:
    """Year → US dollars."""
    chance = _chance(company, "revenue")
    revenue = chance.uniform(5e8, 2e11)
    revenues = {}
    for year in YEARS:
        revenues[year] = round(revenue, -6)
        revenue *= chance.uniform(0.9, 1.2)
    return {year: int(value) for year, value in revenues.items()}


def _revenue(company: Company, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"revenue": _of_year(_revenues(company), arguments)}


def _net_income(company: Company, arguments: Mapping[str, Any]) -> dict[str, Any]:
    chance = _chance(company, "net income")
    incomes = {year: int(round(value * chance.uniform(-0.05, 0.25), -6)) for year, value in _revenues(company).items()}
    return {"net_income": _of_year(incomes, arguments)}


def _of_year(values: Mapping[int, int], arguments: Mapping[str, Any]) -> dict[str, int]:
    """All years, or the one asked for."""
    year = arguments.get("year")
    if year is None:
        return {str(each): value for each, value in values.items()}
    if year not in values:
        raise NoValue(f"year: there are {min(values)} to {max(values)}")
    return {str(year): values[year]}
