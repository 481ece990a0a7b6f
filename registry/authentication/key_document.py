"""The file of keys as JSON: `{"waygraph_keys": 1, "keys": [{"id": …, "sha256": …, …}]}`, whole or refused."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from waygraph.registry.access import Scope
from waygraph.registry.authentication.keys import ApiKey, is_plain
from waygraph.registry.errors import KeysUnusable
from waygraph.registry.validation import reason_of

VERSION = 1


def _time(text: str) -> str:
    if text and datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time needs its zone, such as +00:00")
    return text


def _plain(text: str) -> str:
    if not is_plain(text):
        raise ValueError("not one line of printable characters")
    return text


type Time = Annotated[str, AfterValidator(_time)]
type Plain = Annotated[str, AfterValidator(_plain)]


class StoredKey(BaseModel):
    """One key. A field that is not known is refused: it may be a restriction that this version would not heed."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    id: str = Field(pattern=r"^[0-9a-f]{12}$")
    name: Plain
    scopes: list[Scope] = Field(min_length=1)
    groups: list[Plain]
    everything: bool = Field(strict=True)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    created_at: Time
    expires_at: Time
    revoked_at: Time

    @model_validator(mode="after")
    def _one_way_to_see(self) -> Self:
        if self.everything and self.groups:
            raise ValueError("everything and groups exclude each other")
        return self

    @property
    def noun(self) -> ApiKey:
        fields: dict[str, Any] = self.model_dump()
        return ApiKey(**{**fields, "scopes": tuple(self.scopes), "groups": tuple(self.groups)})


class StoredKeys(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    waygraph_keys: Literal[1]
    keys: list[StoredKey]

    @model_validator(mode="after")
    def _ids_differ(self) -> Self:
        if len({key.id for key in self.keys}) < len(self.keys):
            raise ValueError("two keys have one id")
        return self


def read_keys(path: Path, content: bytes) -> Mapping[str, ApiKey]:
    """Id → key, in the file's order. Raises KeysUnusable, which says where but quotes nothing."""
    try:
        stored = StoredKeys.model_validate_json(content)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False, include_context=False)[0]
        where = "/".join(map(str, first["loc"])) or "the document"
        reason = f"at {where}: {reason_of(first)}; restore it from a copy, or move it away and make new keys"
        raise KeysUnusable(path, reason) from None
    return {key.id: key.noun for key in stored.keys}


def written_keys(keys: Iterable[ApiKey]) -> bytes:
    document = {"waygraph_keys": VERSION, "keys": [asdict(key) for key in keys]}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
