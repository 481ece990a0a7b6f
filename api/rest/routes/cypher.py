"""Cypher that a caller typed."""

from fastapi import APIRouter
from fastapi.responses import Response

from waygraph.api.rest.answers import as_json
from waygraph.api.rest.dependencies import Calling, Serving
from waygraph.api.rest.openapi import operation
from waygraph.api.rest.requests import CypherRequest
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import CypherResult

router = APIRouter(prefix="/v1", tags=["cypher"])


@router.post("/cypher", **operation("cypher"))
async def cypher(asked: CypherRequest, service: Serving, caller: Calling) -> Response:
    """Ask the graph in Cypher. A statement only reads, with a limit of rows, time and memory.

    It needs a caller who sees everything and has the scope `admin`: a statement reads every property of every agent.
    """

    def ask() -> CypherResult:
        with service.audit.attempt(caller, "cypher", asked.statement, parameters=asked.params):
            caller.require("cypher")
            caller.require("admin")
            caller.require_everything("Cypher")
            return service.registry.cypher(asked.statement, asked.params)

    return as_json(shapes.shape(await service.lanes.wait(ask)))
