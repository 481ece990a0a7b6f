"""An issuer of tokens on a real socket, and who reads them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.fake_issuer import AUDIENCE, FakeIssuer, Signer, fake_issuer, signer
from waygraph.registry.access.oidc import IssuerDocuments, IssuerKeys, OidcTokens, Patience
from waygraph.registry.model.errors import NotAuthenticated
from waygraph.registry.model.settings import Settings

PATIENCE = Patience()
"""Its lifetime is not what the settings have by default."""


@dataclass
class World:
    """An issuer, and a reader of its tokens by a clock that the test moves."""

    issuer: FakeIssuer
    signer: Signer
    settings: Settings
    now_s: float = 1000.0
    tokens: OidcTokens = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.reader()

    def reader(self, **changes: Any) -> OidcTokens:
        """Another reader, with other settings, or another `timeout_s` (seconds for each document)."""
        timeout_s = changes.pop("timeout_s", 30.0)
        return OidcTokens.of(replace(self.settings, **changes), timeout_s=timeout_s, keys_clock=lambda: self.now_s)

    def limited_reader(self, *, max_chars: int = 16_384, cache_size: int = 1024) -> OidcTokens:
        """Of tokens of at most so many characters; it remembers so many."""
        documents = IssuerDocuments.of(self.settings)
        keys = IssuerKeys(documents.keys, documents.host, PATIENCE)
        return OidcTokens(self.settings, keys, max_chars=max_chars, cache_size=cache_size)

    def token(self, **changes: object) -> str:
        return self.signer.token(self.issuer.claims(**changes))

    def reason(self, token: str) -> str:
        """Why it is refused."""
        with pytest.raises(NotAuthenticated) as refused:
            self.tokens.caller(token)
        assert refused.value.__cause__ is None
        return str(refused.value).removeprefix("the token is not accepted: ")


def world_of(issuer: FakeIssuer, by: Signer) -> World:
    settings = Settings(oidc_issuer=issuer.url, oidc_audience=AUDIENCE)
    return World(issuer, by, settings)


@contextmanager
def new_world() -> Iterator[World]:
    """With one key."""
    with fake_issuer(signer()) as issuer:
        yield world_of(issuer, signer())
