"""What the five tools of a company return: invented figures, the same for the same company at all times.

A company's figures fit each other: the last price of its history is its current price, and its targets lie around it.
"""

from collections.abc import Mapping
from hashlib import sha256
from random import Random
from statistics import fmean, median
from typing import Any

from waygraph.ingest.datasets.scalemcp.companies import Company, Kind

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
