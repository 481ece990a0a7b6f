"""Documents in the words of former versions, put into today's: after that each reader knows one form.

Words of both may stand in one document. Then today's count.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from waygraph.ingest.manifest.fields import fields_of, items_of, tags_of, text_of

Fields = Mapping[str, Any]

DEFAULT_BINDING, DEFAULT_VERSION = "JSONRPC", "0.3.0"
"""Of a card that names none."""


def upgrade_card(card: Fields) -> Fields:
    """A card of A2A 0.3 as one of 1.0: with `supportedInterfaces`, and the types of `authentication` as schemes."""
    interfaces = [fields_of(interface) for interface in items_of(card.get("supportedInterfaces"))]
    if not any(text_of(interface.get("url")) for interface in interfaces):
        version = text_of(card.get("protocolVersion")) or DEFAULT_VERSION
        main = {"url": card.get("url"), "transport": text_of(card.get("preferredTransport")) or DEFAULT_BINDING}
        older = [main, *(fields_of(interface) for interface in items_of(card.get("additionalInterfaces")))]
        interfaces = [{"protocolBinding": each.get("transport"), "protocolVersion": version, **each} for each in older]
    schemes = items_of(fields_of(card.get("authentication")).get("schemes"))
    types = tags_of(scheme if isinstance(scheme, str) else fields_of(scheme).get("type") for scheme in schemes)
    security = {**fields_of(card.get("securitySchemes")), **dict.fromkeys(types)}
    return {**card, "supportedInterfaces": interfaces, "securitySchemes": security}


OFFICIAL = "io.modelcontextprotocol.registry/official"
_OLDER_OFFICIAL = "x-io.modelcontextprotocol.registry"
_OTHER_NAMES = {"releaseDate": "publishedAt", "registryName": "registryType", "transportType": "type"}
_WORD_START = re.compile(r"(?<=[a-z0-9])_([a-z])")
_MAX_LEVELS = 8
"""A server, its list of packages, each of these, its list of inputs, each of these, and its variables by name."""


def upgrade_entry(entry: Fields) -> Fields:
    """An entry as `{"server": …, "_meta": …}`, where the registry says of a version its `status`, `isLatest` and
    `publishedAt`. `server` is an object, or the entry is one itself.
    """
    server = dict(_respell(entry.get("server", entry)))
    detail = _respell(fields_of(server.get("versionDetail")))
    sides = [_official(entry), _official(server), detail, server]  # the registry's own word first
    server["version"] = _text(server, "version") or _text(detail, "version")
    for package in (each for each in items_of(server.get("packages")) if isinstance(each, dict)):
        package["registryType"] = "oci" if package.get("registryType") == "docker" else package.get("registryType")
        package["identifier"] = package.get("name") if package.get("identifier") is None else package["identifier"]
    official = {
        "status": next(filter(None, (_text(side, "status") for side in sides)), ""),
        "isLatest": next((value for side in sides if isinstance(value := side.get("isLatest"), bool)), None),
        "publishedAt": next(filter(None, (_text(side, "publishedAt") for side in sides)), ""),
    }
    return {"server": server, "_meta": {OFFICIAL: official}}


def _official(of: Fields) -> Fields:
    """What the registry itself says of an entry."""
    meta = of.get("_meta")
    return fields_of(_respell(meta.get(OFFICIAL) if isinstance(meta, Mapping) else of.get(_OLDER_OFFICIAL)))


def _text(of: Fields, name: str) -> str:
    return value if isinstance(value := of.get(name), str) else ""


def _respell(value: Any, levels: int = _MAX_LEVELS, *, keeps_names: bool = False) -> Any:
    """With today's names, in all that it holds: camel case in place of underscores."""
    if levels and isinstance(value, list):
        return [_respell(item, levels - 1) for item in value]
    if not levels or not isinstance(value, Mapping):
        return value
    names = {name: name if keeps_names else _todays_name(name) for name in value}
    parts = {names[name]: part for name, part in value.items() if part is not None and names[name] != name}
    parts |= {name: part for name, part in value.items() if part is not None and names[name] == name}
    return {name: _respell(part, levels - 1, keeps_names=name == "variables") for name, part in parts.items()}


def _todays_name(name: str) -> str:
    camel = _WORD_START.sub(lambda match: match[1].upper(), name)
    return _OTHER_NAMES.get(camel, camel)


def upgrade_api(document: Fields) -> Fields:
    """Swagger 2 with `servers` and `components.securitySchemes`, as OpenAPI 3 has them. References stay as they are,
    and with them all else.
    """
    components = fields_of(document.get("components"))
    schemes = fields_of(components.get("securitySchemes") or document.get("securityDefinitions"))
    addresses = list(_addresses(document))
    return {
        **document,
        "components": {**components, "securitySchemes": schemes},
        **({"servers": [{"url": address} for address in addresses]} if addresses else {}),
    }


def _addresses(document: Fields) -> Iterator[str]:
    """One of each scheme, https first."""
    path = text_of(document.get("basePath"))
    if host := text_of(document.get("host")):
        schemes = [text_of(scheme) for scheme in items_of(document.get("schemes"))] or ["https"]
        yield from (f"{scheme}://{host}{path}" for scheme in sorted(schemes, key="https".__ne__))
    elif path and "servers" not in document:
        yield path


MAX_EXAMPLE_CHARS = 200


def upgrade_schema(schema: dict[str, Any], original: Fields) -> dict[str, Any]:
    """The words of OpenAPI 3.0 and Swagger 2 that JSON Schema 2020-12 says otherwise. `schema`: those that are kept."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if original.get(exclusive) is True and limit in schema:
            schema[exclusive] = schema.pop(limit)
    if original.get("type") == "file":
        schema |= {"type": "string", "format": "binary"}
    example = plain_value(original.get("example"))
    if "example" in original and "examples" not in schema and example and len(str(example[0])) <= MAX_EXAMPLE_CHARS:
        schema["examples"] = [example[0]]
    if schema.get("type") in ("string", ["string", "null"], ["null", "string"]):
        schema |= {word: _as_texts(schema[word]) for word in ("enum", "const", "default") if word in schema}
    nullable = original.get("nullable") is True or original.get("x-nullable") is True
    return _or_null(schema) if nullable else schema


def plain_value(value: object) -> tuple[Any] | tuple[()]:
    """The value as JSON has it, in a tuple; empty for what JSON cannot carry."""
    if isinstance(value, str):
        return (value,)
    try:
        return (json.loads(json.dumps(value, allow_nan=False)),)
    except (ValueError, TypeError, RecursionError):
        return ()


def _as_texts(value: Any) -> Any:
    """Numbers and truth values as text: of a string they stand there for want of quotes."""
    if isinstance(value, list):
        return [_as_texts(each) for each in value]
    return json.dumps(value) if isinstance(value, (bool, int, float)) else value


_REMARKS = frozenset("title description default examples deprecated readOnly writeOnly".split())


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, or null."""
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        enum = {"enum": [*schema["enum"], None]} if "enum" in schema and None not in schema["enum"] else {}
        return {**schema, "type": types if "null" in types else [*types, "null"], **enum}
    remarks = {word: value for word, value in schema.items() if word in _REMARKS}
    rest = {word: value for word, value in schema.items() if word not in _REMARKS}
    return {**remarks, "anyOf": [rest, {"type": "null"}]} if rest else schema
