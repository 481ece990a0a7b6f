"""An issuer of tokens on a real socket, and who reads them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.fake_issuer import AUDIENCE, FakeIssuer, Signer, fake_issuer, signer
from waygraph.registry.authentication.issuer_documents import IssuerDocuments
from waygraph.registry.authentication.issuer_keys import IssuerKeys, Patience
from waygraph.registry.authentication.oidc import OidcTokens, TokenRules
from waygraph.registry.errors import NotAuthenticated
from waygraph.registry.settings import Settings

PATIENCE = Patience(lifetime_s=600.0, stale_s=3600.0, refetch_s=10.0)


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
        """Another reader, with other settings; the patience is fixed."""
        settings = replace(self.settings, **changes)
        documents = IssuerDocuments.of(settings)
        keys = IssuerKeys(documents.keys, documents.host, PATIENCE, clock=lambda: self.now_s)
        return OidcTokens(TokenRules.of(settings), keys, cached=settings.oidc_cached_tokens)

    def token(self, **changes: object) -> str:
        return self.signer.token(self.issuer.claims(**changes))

    def reason(self, token: str) -> str:
        """Why it is refused."""
        with pytest.raises(NotAuthenticated) as refused:
            self.tokens.caller(token)
        assert refused.value.__cause__ is None
        return str(refused.value).removeprefix("the token is not accepted: ")


def world_of(issuer: FakeIssuer, by: Signer) -> World:
    settings = Settings(oidc_issuer=issuer.url, oidc_audience=AUDIENCE, oidc_timeout_s=30.0)
    return World(issuer, by, settings)


@contextmanager
def new_world() -> Iterator[World]:
    """With one key."""
    with fake_issuer(signer()) as issuer:
        yield world_of(issuer, signer())
