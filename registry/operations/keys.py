"""API keys: list, make and end them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from annotated_types import Gt, Le, MaxLen, MinLen

from waygraph.registry.access.authenticator import key_file
from waygraph.registry.access.visibility import SCOPES, Scope
from waygraph.registry.model.changes import KeySummary, NewKey
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.validation import MAX_NAME_CHARS, MAX_NAMES
from waygraph.registry.operations import answer_shapes
from waygraph.registry.operations.request import Graph, ListRequest, Name, Operation, Request


@dataclass(frozen=True, kw_only=True)
class ListKeys(ListRequest[KeySummary]):
    """The API keys, ended ones too, oldest first. It needs the scope `admin` and a caller who sees everything."""

    operation = Operation("keys", "GET", "/v1/keys", "admin", "admin", answer_shapes.Keys, whole="the list of keys")
    listing, noun = "keys", KeySummary

    def answer(self, graph: Graph, principal: Principal | None) -> list[KeySummary]:
        file = key_file(graph.settings)
        return list(map(file.summary, file.list()))


@dataclass(frozen=True, kw_only=True)
class CreateKey(Request[NewKey]):
    """Make a key. Its text is told this once. It has no scope that the caller lacks, and ends no later than the
    caller's own key, or within 90 days where the caller shows a token; it needs a caller who sees everything.
    """

    operation = Operation(
        "create_key", "POST", "/v1/keys", "admin", "admin", NewKey,
        is_write=True, whole="to make keys", body="KeyRequest", audit=("set", "key {name}"),
    )  # fmt: skip

    name: Name
    """Who will hold it, for lists and logs."""
    scopes: Annotated[Sequence[Scope], MinLen(1), MaxLen(len(SCOPES))]
    """What it may do."""
    groups: Annotated[Sequence[Name], MaxLen(MAX_NAMES)] = ()
    everything: bool = False
    toolset: Annotated[str, MaxLen(MAX_NAME_CHARS)] = ""
    """It reaches the endpoint /NAME/mcp of this toolset alone."""
    expires_in_days: Annotated[float, Gt(0), Le(36_500)] | None = None
    """null: it does not end by itself."""

    def answer(self, graph: Graph, principal: Principal | None) -> NewKey:
        file, days = key_file(graph.settings), self.expires_in_days
        key, text = file.create(
            self.name,
            self.scopes,
            self.groups,
            everything=self.everything,
            toolset=self.toolset,
            expires_in=None if days is None else timedelta(days=days),
        )
        return file.new_key(key, text)


@dataclass(frozen=True, kw_only=True)
class RevokeKey(Request[KeySummary]):
    """End a key now, and the logins at servers that its holder made. It needs a caller who sees everything."""

    operation = Operation(
        "revoke_key", "DELETE", "/v1/keys/{key_id}", "admin", "admin", KeySummary,
        is_write=True, whole="to revoke keys", audit=("remove", "key {key_id}"),
    )  # fmt: skip

    key_id: Annotated[str, MaxLen(64)]
    """As the list of keys has it."""

    def answer(self, graph: Graph, principal: Principal | None) -> KeySummary:
        file = key_file(graph.settings)
        return file.summary(file.revoke(self.key_id))
