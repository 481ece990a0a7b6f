"""The companies of a list, and what each is called: name, ticker, alias."""

import csv
import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from waygraph.ingest.datasets.scalemcp.data import read_yaml
from waygraph.registry.errors import InvalidDataset

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
        name: alias if (alias := given.get(name, "")) and _is_own(alias, name, names) else _shortened(name, names)
        for name in names
    }


def _shortened(name: str, names: Iterable[str]) -> str:
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
