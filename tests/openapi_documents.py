"""Documents of OpenAPI 3 and Swagger 2, and what is read of them."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from waygraph.ingest.manifest.records import Intake, Manifest
from waygraph.ingest.sources.formats import openapi
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Tool
from waygraph.registry.model.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "sources" / "customs-desk.yaml"
OURS = ROOT / "docs" / "openapi.json"

PETS_3_0: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pet Shop", "version": "1.0.0", "description": "Animals and their food."},
    "servers": [{"url": "https://{at}.example/{v}", "variables": {"at": {"default": "pets"}, "v": {"default": 2}}}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "pets/list",
                "summary": "List the pets",
                "description": "All pets, youngest first.",
                "tags": ["pets"],
                "parameters": [
                    {"$ref": "#/components/parameters/Limit"},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                    {"name": "seen", "in": "cookie", "schema": {"type": "boolean"}, "deprecated": True},
                    {"name": "where", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
                ],
                "responses": {
                    "200": {"description": "Pets", "content": {"application/json": {"schema": {"type": "array"}}}}
                },
            },
            "post": {
                "operationId": "addPet",
                "requestBody": {"$ref": "#/components/requestBodies/Pet"},
                "responses": {
                    "default": {
                        "description": "Trouble",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    },
                    "201": {
                        "description": "Taken in",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                    },
                },
            },
        },
        "/pets/{petId}": {
            "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "put": {
                "summary": "Change a pet",
                "parameters": [
                    {"name": "petId", "in": "query", "schema": {"type": "string"}},
                    {"name": "name", "in": "query", "style": "form", "explode": False, "schema": {"type": "array"}},
                ],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/xml": {"schema": {"type": "string"}},
                        "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}},
                    },
                },
                "servers": [{"url": "https://write.example"}],
            },
            "delete": {"operationId": "removePet", "deprecated": True, "tags": ["pets"]},
        },
        "/pets/{petId}/photo": {
            "post": {
                "operationId": "addPhoto",
                "requestBody": {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}},
            }
        },
    },
    "components": {
        "parameters": {
            "Limit": {
                "name": "limit",
                "in": "query",
                "description": "How many at most",
                "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "nullable": True, "example": 3},
            }
        },
        "requestBodies": {
            "Pet": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
        },
        "schemas": {
            "Pet": {
                "allOf": [
                    {"$ref": "#/components/schemas/Named"},
                    {
                        "type": "object",
                        "required": ["id"],
                        "properties": {
                            "id": {"type": "integer", "readOnly": True},
                            "petId": {"type": "integer"},
                            "mother": {"$ref": "#/components/schemas/Pet"},
                            "kind": {"enum": ["cat", "dog"], "type": "string", "nullable": True},
                            "food": {"allOf": [{"$ref": "#/components/schemas/Food"}], "nullable": True},
                        },
                    },
                ]
            },
            "Named": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            "Food": {
                "type": "object",
                "xml": {"name": "food"},
                "x-internal": 1,
                "properties": {"grams": {"type": "number"}},
            },
        },
        "securitySchemes": {"shop": {"type": "apiKey", "in": "header", "name": "X-Shop-Key"}},
    },
}

EVENTS_3_1 = """
openapi: 3.1.0
info: {title: Events, version: 2026-01-31, summary: What happens where}
servers: [{url: /v1}]
webhooks:
  happened: {post: {operationId: happened, requestBody: {content: {application/json: {schema: {type: object}}}}}}
paths:
  /events:
    get:
      operationId: listEvents
      parameters:
        - name: since
          in: query
          schema: {type: [string, "null"], format: date, default: 2026-01-01, examples: [2026-02-01]}
      responses:
        2XX:
          description: Some
          content:
            application/json: {schema: {$ref: "#/components/schemas/Page"}}
components:
  schemas:
    Page:
      $id: https://events.example/page
      type: object
      $defs:
        Event: {type: object, properties: {at: {const: now}, part: {$ref: "#/components/schemas/Page/$defs/Event"}}}
      properties:
        events: {type: array, prefixItems: [{$ref: "#/components/schemas/Page/$defs/Event"}]}
        next: {$ref: "#/components/schemas/Page"}
"""

FILES_2_0: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "Files", "version": "1"},
    "host": "files.example",
    "basePath": "/api",
    "schemes": ["http", "https"],
    "consumes": ["application/json"],
    "securityDefinitions": {"basic": {"type": "basic"}},
    "paths": {
        "/files": {
            "post": {
                "operationId": "upload",
                "consumes": ["multipart/form-data"],
                "parameters": [
                    {"name": "file", "in": "formData", "type": "file", "required": True, "description": "The content"},
                    {"name": "note", "in": "formData", "type": "string", "x-nullable": True},
                ],
            },
            "get": {
                "operationId": "list",
                "parameters": [
                    {
                        "name": "tags",
                        "in": "query",
                        "type": "array",
                        "items": {"type": "string"},
                        "collectionFormat": "csv",
                    }
                ],
                "responses": {"200": {"description": "Found", "schema": {"$ref": "#/definitions/Found"}}},
            },
        },
        "/files/{name}": {
            "put": {
                "operationId": "rename",
                "parameters": [
                    {"name": "name", "in": "path", "required": True, "type": "string"},
                    {"name": "change", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Change"}},
                ],
            },
            "patch": {
                "operationId": "edit",
                "parameters": [
                    {"name": "lines", "in": "body", "description": "New lines", "schema": {"type": "array"}}
                ],
            },
        },
    },
    "definitions": {
        "Change": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "by": {"type": "string"}},
        },
        "Found": {"properties": {"names": {"type": "array", "items": {"type": "string"}}}},
    },
}


def read(document: Any, where: str = "spec.json") -> Intake:
    intake = Intake(where)
    for record in openapi.read(document, where, intake):
        intake.take(record)
    return intake


def agent_of(document: Any, where: str = "spec.json") -> AgentEntry:
    [entry] = read(document, where).entries
    return entry


def tools_of(document: Any) -> dict[str, Tool]:
    return {tool.name: tool for tool in agent_of(document).tools}


def told(records: Any) -> dict[str, str]:
    """JSON pointer → reason."""
    return {each.where.rpartition("#")[2]: each.reason for each in records}


def schema(tool: Tool) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(tool.input_schema)
    return parsed


def hints(tool: Tool) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(tool.annotations)
    return parsed


def http(tool: Tool) -> dict[str, Any]:
    call: dict[str, Any] = hints(tool)["http"]
    return call


def manifest_of(path: Path) -> Manifest:
    [manifest] = read_path(str(path), Settings())
    return manifest


def document_with(operation: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"openapi": "3.0.0", "info": {"title": "T"}, "paths": {"/x": {"post": operation}}, **parts}


def body_of(schema: object, media: str = "application/json") -> dict[str, Any]:
    return {"operationId": "send", "requestBody": {"required": True, "content": {media: {"schema": schema}}}}


def written_call(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """A request made of what is stored alone, as the documentation says."""
    call = http(tool)
    request: dict[str, Any] = {"method": call["method"], "path": call["path"], "query": {}, "header": {}, "cookie": {}}
    fields = {}
    for name, value in arguments.items():
        if place := call.get("parameters", {}).get(name):
            stated = place.get("name", name)
            if place["in"] == "path":
                request["path"] = request["path"].replace("{" + stated + "}", quote(str(value)))
            else:
                request[place["in"]][stated] = value
        else:
            fields[call["body"].get("fields", {}).get(name, name)] = value
    if "body" in call:
        request["body"] = fields.get(call["body"]["argument"]) if "argument" in call["body"] else fields
    return request
