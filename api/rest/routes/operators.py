"""What an operator looks after: keys, usage over time, how the service runs, and records of evaluations."""

import platform
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from waygraph.api.rest.evaluations import read_evaluations
from waygraph.api.rest.exchange import Exchange, handles
from waygraph.api.rest.requests import KeyRequest, Parameters
from waygraph.api.rest.service import Lanes
from waygraph.api.telemetry.logs import without_secrets
from waygraph.api.telemetry.metrics import memory_bytes
from waygraph.ingest.logins.store import login_file
from waygraph.registry.model import shapes
from waygraph.registry.model.errors import NotAllowed, WaygraphError
from waygraph.registry.model.settings import PREFIX, Settings
from waygraph.registry.model.shapes import Shape
from waygraph.registry.model.usage import MAX_DAYS, UsageBy, UsageOf
from waygraph.registry.model.validation import MAX_ID_CHARS
from waygraph.registry.remote import operations

MOST_DAYS_BY_TOKEN = 90
"""Of a key that somebody made by an issuer's token: the issuer cannot end it with them."""


@handles(operations.KEYS)
def keys(exchange: Exchange) -> Shape:
    """The API keys, ended ones too, oldest first. It needs the scope `admin` and a caller who sees everything."""
    exchange.caller.require_everything("the list of keys")
    return {"keys": list(map(shapes.shape, exchange.registry.operator.api_keys()))}


@handles(operations.CREATE_KEY)
def create_key(exchange: Exchange, body: KeyRequest) -> Shape:
    """Make a key. Its text is told this once. It has no scope that the caller lacks, and ends no later than the
    caller's own key, or within 90 days where the caller shows a token; it needs a caller who sees everything.
    """
    with exchange.attempt("set", f"key {body.name}"):
        _require_keeper(exchange, "to make keys")
        for scope in body.scopes:
            exchange.caller.require(scope)
        _refuse_longer_life(exchange, body.expires_in_days)
        key = exchange.registry.operator.create_key(**body.model_dump())
    return shapes.shape(key)


def _require_keeper(exchange: Exchange, what: str) -> None:
    """Raises NotAllowed, also where nobody is asked who they are: there the first key alone can be made."""
    exchange.caller.require_everything(what)
    if exchange.service.authenticator is None and exchange.registry.operator.api_keys():
        raise NotAllowed(
            "this service asks nobody who they are, and there are keys: use `waygraph keys`, or have the service ask"
        )


def _refuse_longer_life(exchange: Exchange, days: float | None) -> None:
    """Raises NotAllowed."""
    if exchange.caller.id.startswith("oidc:") and (days is None or days > MOST_DAYS_BY_TOKEN):
        raise NotAllowed(f"who shows a token makes keys for at most {MOST_DAYS_BY_TOKEN} days: say expires_in_days")
    own = next((k for k in exchange.registry.operator.api_keys() if f"key:{k.id}" == exchange.caller.id), None)
    if own and own.expires_at:
        rest = datetime.fromisoformat(own.expires_at) - datetime.now(UTC)
        if days is None or days > rest / timedelta(days=1):
            raise NotAllowed(f"the caller's own key ends at {own.expires_at}, and one that it makes ends no later")


@handles(operations.REVOKE_KEY)
def revoke_key(
    exchange: Exchange, key_id: Annotated[str, Path(description="As the list of keys has it.", max_length=64)]
) -> Shape:
    """End a key now, and the logins at servers that its holder made. It needs a caller who sees everything."""
    with exchange.attempt("remove", f"key {key_id}"):
        _require_keeper(exchange, "to revoke keys")
        key = exchange.registry.operator.revoke_key(key_id)
        login_file(exchange.service.settings).forget(f"key:{key.id}")
    return shapes.shape(key)


class DaysQuery(Parameters):
    """Of what, and in which parts."""

    of: UsageOf = Field(default="tool", description="Calls by tool or by caller, or requests by caller.")
    by: UsageBy = Field(default="day", description="A part for each day, or for each tool or caller.")
    name: str = Field(default="", max_length=MAX_ID_CHARS * 2, description="Only of this tool or caller, by id.")
    days: int = Field(default=30, ge=1, le=MAX_DAYS, description="So many days, today included.")


@handles(operations.USAGE_DAYS, lane=Lanes.wait)
def usage_days(exchange: Exchange, query: Annotated[DaysQuery, Query()]) -> Shape:
    """Calls, errors and latencies by day, tool or caller; and requests, with those that found nothing. It needs the
    scope `admin` and a caller who sees everything.
    """
    exchange.caller.require_everything("usage")
    return {"usage": list(map(shapes.shape, exchange.registry.operator.usage_days(**query.model_dump())))}


@handles(operations.SEARCH_GAPS, lane=Lanes.wait)
def search_gaps(exchange: Exchange) -> Shape:
    """The last requests that found nothing, if their texts are kept; and words of requests that no text of the
    registry held. It needs the scope `admin` and a caller who sees everything.
    """
    exchange.caller.require_everything("usage")
    return shapes.shape(exchange.registry.operator.search_gaps())


@handles(operations.SERVICE, lane=Lanes.wait)
def service(exchange: Exchange) -> Shape:
    """How the service runs, and what an operator should look at. It needs a caller who sees everything."""
    exchange.caller.require_everything("the state of the service")
    hindrance = exchange.service.readiness.hindrance()
    return {
        "version": version("waygraph"),
        "python": platform.python_version(),
        "memory_bytes": memory_bytes(),
        "ready": hindrance is None,
        "asks_who_calls": exchange.service.authenticator is not None,
        "settings": [
            {"name": f"{PREFIX}{each.name.upper()}", "value": without_secrets(str(value)) if each.repr else ""}
            for each in fields(Settings)
            if (value := getattr(exchange.service.settings, each.name)) != each.default
        ],
        "cautions": list(_cautions(exchange, hindrance)),
    }


def _cautions(exchange: Exchange, hindrance: WaygraphError | None) -> list[str]:
    cautions = [str(hindrance)] if hindrance else []
    if exchange.service.authenticator:
        cautions.append(exchange.service.authenticator.keys.caution())
    with suppress(WaygraphError):
        failing = len(exchange.status.failures)
        cautions.append(f"{failing} of the sources' servers or parts fail: see Sources" if failing else "")
        waiting = sum(agent.pending for agent in exchange.registry.agents())
        cautions.append(f"{waiting} agents wait for approval: see Changes" if waiting else "")
    return list(filter(None, cautions))


@handles(operations.EVALUATIONS, lane=Lanes.wait)
def evaluations(exchange: Exchange) -> Shape:
    """Records of `waygraph eval` in the folder that the operator names (`WAYGRAPH_EVALS_DIR`), newest first, without
    their queries. It needs the scope `admin` and a caller who sees everything.
    """
    exchange.caller.require_everything("evaluations")
    return read_evaluations(exchange.service.settings.evals_dir)
