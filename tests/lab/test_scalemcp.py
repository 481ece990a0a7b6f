"""ScaleMCP's benchmark, made from a list of companies: the same for the same seed, and as the paper says."""

import re
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import get_args

import pytest

from waygraph.registry.model.settings import Settings
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.scalemcp.companies import (
    KINDS,
    Company,
    Layout,
    questions_of,
    read_companies,
)
from waygraph_lab.scalemcp.generate import Choices, base_queries, generate, instances

LIST = "company,ticker,sector\n" + "".join(f"Firm{n} Holdings,F{n}X,Trade\n" for n in range(30))


@pytest.fixture(scope="module")
def companies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Company, ...]:
    return listed(tmp_path_factory.mktemp("list"), LIST)


def listed(folder: Path, text: str) -> tuple[Company, ...]:
    path = folder / "companies.csv"
    path.write_text(text, encoding="utf-8")
    return read_companies(path)


def test_a_company_is_called_by_name_ticker_and_alias(tmp_path: Path) -> None:
    """Entities are read, what stands in brackets is another name; what may be another company is no call of any."""
    rows = (
        "Dick&#8217;s Goods,DKS,R", "Advanced Devices (AMD),AMDX,T", "CHS,,F", "Chico,CHS,R", "Acme Holdings,AC,S",
        "Prudent (U.S.),PRU,I", "Ford Motor,F,A", "Ford Credit,FC,F", "Lake (River),LK,W", "River Inc.,RV,W",
        "American Group,AGR,I", "American Energy,AEN,E", "Alphabet,GOOGL,T",
    )  # fmt: skip
    calls = {each.name: each.calls for each in listed(tmp_path, "\n".join(["company,ticker,sector", *rows]))}
    assert calls == {
        "Dick’s Goods": ("Dick’s Goods", "DKS", "Dick’s Goods"),
        "Advanced Devices": ("Advanced Devices", "AMDX", "AMD"),
        "CHS": ("CHS", "CHS", "CHS"),
        "Chico": ("Chico", "Chico", "Chico"),
        "Acme Holdings": ("Acme Holdings", "AC", "Acme"),
        "Prudent": ("Prudent", "PRU", "Prudent"),
        "Ford Motor": ("Ford Motor", "F", "Ford Motor"),
        "Ford Credit": ("Ford Credit", "FC", "Ford Credit"),
        "Lake": ("Lake", "LK", "Lake"),
        "River Inc.": ("River Inc.", "RV", "River"),
        "American Group": ("American Group", "AGR", "American Group"),
        "American Energy": ("American Energy", "AEN", "American Energy"),
        "Alphabet": ("Alphabet", "GOOGL", "Google"),
    }


def test_base_queries_are_about_a_hundred_a_tool_and_all_distinct() -> None:
    """Each file is of one tool, which most of its queries need; no two say the same."""
    bases = base_queries()
    by_kind = Counter(base.id.rpartition("-")[0] for base in bases)
    assert by_kind.keys() == set(KINDS)
    assert all(100 <= count <= 115 for count in by_kind.values())
    assert len({words(base.text) for base in bases}) == len(bases)
    for kind in KINDS:
        own = [base for base in bases if base.id.startswith(kind)]
        assert all(any(kind in kinds for kinds in base.tools.values()) for base in own)
    assert {kind for base in bases for kinds in base.tools.values() for kind in kinds} == set(KINDS)


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9']+", re.sub(r"\{[^}]*\}", "", text.lower())))


def test_gold_is_every_tool_of_every_company_named(companies: tuple[Company, ...]) -> None:
    called = {call: company for company in companies for call in company.calls}
    for query in instances(companies, seed=2, count=2_500):
        named = {called[call] for call in re.findall(r"Firm\d+ Holdings|Firm\d+(?! Holdings)\b|F\d+X", query.text)}
        assert named == {company for company, _ in query.gold}, query.text


@pytest.mark.parametrize("layout", get_args(Layout))
def test_the_folder_is_read_as_a_dataset(tmp_path: Path, companies: tuple[Company, ...], layout: Layout) -> None:
    """Every gold agent and tool is there; the daily sample is a split; questions are the tools' own."""
    made = generate(tmp_path / "d", companies, Choices(layout=layout, instances=2_500, questions=5))
    dataset = read_dataset(tmp_path / "d", Settings())
    assert dataset.checksum == made.checksum
    assert dataset.size == {"agents": 150 if layout == "tools" else 30, "tools": 150, "questions": 2_500, "steps": 0}
    daily = dataset.queries("questions", split="daily")
    assert len(daily) == made.daily == 2_000
    assert made.daily_mean_gold_tools == pytest.approx(fmean(len(query.gold_tools) for query in daily))
    tools = [tool for entry in dataset.catalogue.entries for tool in entry.tools]
    assert {len(tool.questions) for tool in tools} == {5}
    first = tools[0]
    assert (first.name, first.questions) == (
        "get_firm0_holdings_current_stock_price",
        tuple(questions_of(companies[0], "current_stock_price", 5)),
    )
    assert first.description == (
        "Return the most recent trading price for Firm0 Holdings (F0X)'s stock, or -1 if unavailable."
    )
