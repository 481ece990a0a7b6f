"""Performs the requests that are an operation by themselves: each at its path, made from its class.

A request that comes is checked by a model of its fields, made a request of the registry and performed in the caller's
name: after its scope, and in the audit, as its operation says.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Annotated, Any, cast, get_type_hints

from fastapi import Body, Path, Query
from pydantic import BaseModel, Field, create_model

from waygraph.api.rest.openapi import json_type
from waygraph.api.rest.requests import Parameters, Strict
from waygraph.api.rest.service import ENDPOINTS, Exchange, Lane, handles, report_line
from waygraph.api.telemetry.audit import Action
from waygraph.registry.model.shapes import Shape, field_texts
from waygraph.registry.operations.request import Request

type Make = Callable[[Exchange, Mapping[str, Any], Any], Request[Any]]
"""Of the parts of the path, and of the checked body, if there is one, the request."""


def serve(
    kind: type[Request[Any]],
    *,
    model: type[BaseModel] | None = None,
    make: Make | None = None,
    fills: Mapping[str, Callable[[Exchange], object]] = MappingProxyType({}),
    check: Callable[[Exchange, Any], None] | None = None,
    extend: Callable[[Exchange, Any], Mapping[str, object]] | None = None,
    lane: Lane | None = None,
) -> None:
    """Binds a kind of request to its operation, where more is to be said of it than `serve_others` knows.

    `model` and `make`: where the body is not the request's own fields; `fills`: the fields that a caller does not say.
    `check`: what else a caller needs, by raising NotAllowed; `extend`: more of the answer, once it is there.
    """
    operation = kind.operation
    hints, texts = get_type_hints(kind, include_extras=True), field_texts(kind)
    path_names = re.findall(r"\{(\w+)", operation.path)
    own = {each.name: each for each in fields(kind) if each.name not in (*path_names, *fills)}
    is_query = operation.method in ("GET", "DELETE")
    body = model or (_model(kind, own, hints, texts, Parameters if is_query else Strict) if own else None)

    def handler(exchange: Exchange, **parts: Any) -> Shape:
        given = parts.pop("given", None)
        parts |= {name: fill(exchange) for name, fill in fills.items()}
        request = make(exchange, parts, given) if make else kind(**parts, **dict(given or ()))
        with ExitStack() as within:
            attempt = None
            if operation.audit:
                action, target = operation.audit
                attempt = within.enter_context(
                    exchange.attempt(
                        cast("Action", action),
                        target.format(**{name: getattr(request, name) for name in re.findall(r"\{(\w+)", target)}),
                        details=report_line(request.audit_details()),
                        parameters=tuple(getattr(request, "params", ())),
                    )
                )
            if operation.is_for_admin:
                exchange.caller.require("admin")
            if operation.whole:
                exchange.caller.require_everything(operation.whole)
            if check:
                check(exchange, request)
            answer = exchange.registry.perform(request, exchange.caller.writer)
            if attempt:
                attempt.revision = getattr(answer, "revision", None)
            more = extend(exchange, answer) if extend else {}
        return {**request.write(answer, exchange.transport_filter), **more}

    parts: dict[str, Any] = {name: Annotated[hints[name], Path(description=texts.get(name))] for name in path_names}
    if body:
        parts["given"] = Annotated[body, Query() if is_query else Body()]
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation) for name, annotation in parts.items()]
    exchange = Parameter("exchange", Parameter.POSITIONAL_OR_KEYWORD, annotation=Exchange)
    vars(handler)["__signature__"] = Signature([exchange, *parameters])
    handler.__doc__, handler.__name__ = kind.__doc__, operation.name
    handles(operation, lane=lane)(handler)


def serve_others() -> None:
    """Serves each kind of request that knows its answer and has no handler yet: its class says all of it."""
    for kind in Request.request_kinds():
        if kind.operation.name not in ENDPOINTS and kind.answer is not Request.answer:
            serve(kind)


def _model(
    kind: type[Request[Any]], own: Mapping[str, Any], hints: Mapping[str, Any], texts: Mapping[str, str], base: Any
) -> type[BaseModel]:
    """What checks these fields of a request."""
    stated: Any = {
        name: (json_type(hints[name]), Field(_default(each), description=texts.get(name))) for name, each in own.items()
    }
    model: type[BaseModel] = create_model(kind.operation.body or kind.__name__, __base__=base, **stated)
    return model


def _default(field: Any) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    if field.default is MISSING:
        return ...
    return list(field.default) if isinstance(field.default, tuple) else field.default
