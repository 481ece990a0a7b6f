"""What does not fit in a request: each fault with its place, and for an unknown field the one that was meant."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.requests import Request

from waygraph.registry.model.errors import nearest
from waygraph.registry.model.validation import reason_of


def faults_of(request: Request, errors: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """`at`, the place with dots between its parts, and `reason`, of each error that pydantic tells of a request."""
    body = _body_of(request)
    return [{"at": ".".join(map(str, fault["loc"])), "reason": _reason(fault, body)} for fault in errors]


def _body_of(request: Request) -> type[BaseModel] | None:
    route = request.scope.get("route")
    field = route.body_field if isinstance(route, APIRoute) else None
    return _model_in(field.field_info.annotation) if field else None


def _reason(fault: Mapping[str, Any], body: type[BaseModel] | None) -> str:
    said = reason_of(fault)
    if fault["type"] != "extra_forbidden" or body is None:
        return said
    _, *way, name = fault["loc"]
    return said + _meant(str(name), _fields(_model_at(body, way)))


def _meant(name: str, fields: Mapping[str, FieldInfo]) -> str:
    if holders := [outer for outer, field in fields.items() if name in _fields(_model_in(field.annotation))]:
        return f" here; it belongs in `{holders[0]}`"
    near = nearest(name, fields)
    meant = f"; did you mean `{near[0]}`?" if near else ""
    return f"; known: {', '.join(fields)}{meant}"


def _fields(model: type[BaseModel] | None) -> dict[str, FieldInfo]:
    """By the names that a request gives them."""
    return {field.alias or name: field for name, field in model.model_fields.items()} if model else {}


def _model_at(model: type[BaseModel] | None, way: Sequence[object]) -> type[BaseModel] | None:
    """`way`: names of fields, and numbers of the entries of lists."""
    for part in way:
        if isinstance(part, str):
            field = _fields(model).get(part)
            model = _model_in(field.annotation) if field else None
    return model


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model itself, or the one in a list or union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
