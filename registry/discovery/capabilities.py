"""What a gateway can do, for whoever asks before it calls."""

from typing import TYPE_CHECKING, Any

from waygraph.registry.discovery.described import DETAILS, PARAMETERS_TOLD, SUMMARY_CHARS
from waygraph.registry.discovery.finding import MAX_LIMIT, FindAsked
from waygraph.registry.errors import NeedsRegistry
from waygraph.registry.formats import TOOL_FORMATS
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, RECIPES

if TYPE_CHECKING:
    from waygraph.registry.registry import Registry


def capabilities(registry: "Registry") -> dict[str, Any]:
    """As JSON has it. `backends`: what tools are found by; `notice`, where there is one, says what is missing."""
    notice = _notice(registry)
    by_vectors = bool(registry.status().state.embedder) and not notice
    told: dict[str, Any] = {
        "backends": ["keyword", "embedding"] if by_vectors else ["keyword"],
        "recipes": {name: recipe.purpose for name, recipe in RECIPES.items() if recipe.ranks_tools},
        "default_recipe": DEFAULT_RECIPE,
        "formats": list(TOOL_FORMATS),
        "details": list(DETAILS),
        "limits": {
            "default": FindAsked().limit,
            "max": MAX_LIMIT,
            "max_query_chars": registry.settings.max_query_chars,
            "summary_chars": SUMMARY_CHARS,
            "parameters_told": PARAMETERS_TOLD,
        },
    }
    return told | ({"notice": notice} if notice else {})


def _notice(registry: "Registry") -> str:
    """A service keeps it to itself and tells it with its answers."""
    try:
        return registry.notice
    except NeedsRegistry:
        return ""
