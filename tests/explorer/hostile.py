"""A registry whose every field attacks whoever shows it, and what has to be true of a page that did.

`hostile_service` is one that holds it; `assert_harmless` looks at the page, and `Visit.faults` at what it did.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import Visit
from tests.service import Served, served
from tests.service import ingest as ingest_at
from waygraph.registry.model.settings import Settings

FAR = "https://evil.example"
ATTACKS = (
    f"<script>window.attacked = 1; fetch('{FAR}')</script>",
    "<img src=x onerror='window.attacked = 2; alert(2)'>",
    f"<svg onload='window.attacked = 3'><a href='javascript:attacked = 3'>x</a><image href='{FAR}/3.svg'/></svg>",
    f'"><iframe srcdoc="<script>parent.attacked = 4</script>"></iframe><link rel=stylesheet href={FAR}/4.css>',
    "javascript:window.attacked=5//",
    "' autofocus onfocus='window.attacked = 6' x='",
    "${window.attacked = 7} {{constructor.constructor('window.attacked = 7')()}} <%= 7 %> #{7}",
    "</textarea></title></style></script><script>window.attacked = 8</script>",
    f"<style>@import '{FAR}/9.css'; body {{ background: url({FAR}/9.png) }}</style>",
    "\u202egnp.exe\u202c \u2066hidden\u2069 \u200b\u200d\ufeff \U000e0041\U000e0042 \u0430dmin",
    '=HYPERLINK("https://evil.example","x") +1 -1 @SUM(A1)',
    "`${alert(12)}` <!-- --> ]]> &lt;script&gt;alert(12)&lt;/script&gt;",
)
WHOLE = "\n".join(ATTACKS)
SHELL = "look'$(touch x)'\"&"
"""A tool's name that would run in a shell."""
HUGE = "<b>x</b>" * 125_000
"""1 MB."""
UNSEEN = "a\u200b" * 250_000
"""1 MB of characters that a page shows by their numbers, each apart from the next."""
MOST_ELEMENTS = 20_000
"""Of a page that a browser still draws at once."""


def attacking_schema(depth: int = 2) -> dict[str, Any]:
    """Names, titles, defaults, patterns and choices of parameters, also of those within."""
    fields: dict[str, Any] = {
        "onclick": {"type": "string", "description": WHOLE, "title": WHOLE, "default": WHOLE, "pattern": WHOLE},
        "__proto__": {"type": "string", "format": ATTACKS[5]},
        "constructor": {"enum": list(ATTACKS), "description": ATTACKS[1]},
        "toString": {"type": "integer", "minimum": ATTACKS[0], "maximum": {"x": ATTACKS[1]}},
        "style": {"type": "array", "items": {"type": "string", "enum": list(ATTACKS)}},
        "dangerouslySetInnerHTML": {"type": "object", "default": {"__html": ATTACKS[1]}},
        "odd": {"type": [], "enum": None, "anyOf": {}, "$ref": "#/properties/odd"},
        "words": {"type": [{"toString": 1}], "enum": {}, "const": {"toString": 1}, "multipleOf": {"toString": 1}},
        "formats": {"type": "string", "format": {"toString": 1}, "maxLength": {"toString": 1}},
        "form": {"type": "string", "format": "constructor"},
        "many": {"enum": [f"<b>{number}" for number in range(500)]},
        "each": {"type": "array", "items": {"type": "string", "enum": [{"toString": 1}]}},
        **{attack[:100]: {"type": "boolean", "description": attack} for attack in ATTACKS},
    }
    if depth:
        fields["inner"] = attacking_schema(depth - 1)
    return {"type": "object", "properties": fields, "required": list(fields)}


def endless_schema() -> dict[str, Any]:
    """10^8 fields in 20 KB."""
    levels = {
        str(level): {"type": "object", "properties": {f"p{n:02}": {"$ref": f"#/$defs/{level + 1}"} for n in range(100)}}
        for level in range(3)
    }
    return {**levels["0"], "$defs": {**levels, "3": {"type": "string"}}}


def attackers() -> Iterator[dict[str, Any]]:
    """Agents as a source may state them: one for each attack, and those whose texts or schemas are huge."""
    for number, attack in enumerate(ATTACKS):
        yield {
            "id": f"attacker-{number}",
            "name": attack[:200],
            "description": f"{attack}\n{WHOLE}",
            "version": "1<script>"[: 1 + number],
            "tags": [attack[:60]],
            "transport": {"type": "http", "url": f"{FAR}/{number}"},
            "tools": [tool(f"look_{number}", attack), *([tool(SHELL, attack)] if number == 0 else [])],
        }
    for name, text in (("huge", HUGE), ("unseen", UNSEEN)):
        yield {"id": name, "name": name, "description": text, "tools": [tool(name, text, large=True)]}
    endless = {"name": "endless", "description": "x", "inputSchema": endless_schema()}
    yield {"id": "endless", "name": "endless", "description": "x", "tools": [endless]}


def tool(name: str, attack: str, *, large: bool = False) -> dict[str, Any]:
    hints = {"title": attack[:200], "readOnlyHint": attack[:60], "destructiveHint": {"x": attack[:60]}}
    return {
        "name": name,
        "description": attack if large else f"{attack}\n{WHOLE}",
        "inputSchema": attacking_schema(),
        "outputSchema": {"type": "object", "description": attack if large else attack[:1000]},
        "annotations": hints,
        "questions": [attack[:200], *ATTACKS],
    }


@pytest.fixture(scope="session")
def hostile_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Without authentication. Texts were flagged, and approved, so that they are in answers too."""
    folder = tmp_path_factory.mktemp("hostile")
    with served(folder / "r.grafeo", settings=Settings(explorer_calls=True)) as service:
        ingest_at(service.client(), ATTACKS[1][:200], *attackers())
        service.registry.operator.set("attacker-1", tags=[ATTACKS[0][:60]], visible_to=[ATTACKS[1][:60]])
        yield service


def assert_harmless(visit: Visit) -> None:
    """Nothing of the registry has become markup, a script, a link that runs, or an address that is asked."""
    page = visit.page
    assert page.evaluate("window.attacked") is None
    assert page.evaluate("Object.prototype.attacked") is None
    strange = (
        "iframe, object, embed, link[href*='evil'], img, image, script:not([src^='/explore/']), [onerror], [onload]"
    )
    assert page.locator(strange).count() == 0
    links = page.eval_on_selector_all("a[href]", "links => links.map(link => link.protocol)")
    assert set(links) <= {"http:", "https:"}
    assert page.locator("*").count() < MOST_ELEMENTS
    assert visit.faults == []
