"""From what a request shows to who calls."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from waygraph.registry.access import Caller
from waygraph.registry.authentication.keys import ApiKey, KeyFile
from waygraph.registry.errors import NotAuthenticated
from waygraph.registry.model import Principal
from waygraph.registry.settings import Settings

if TYPE_CHECKING:
    from waygraph.registry.authentication.oidc import OidcTokens

HOW = "send `Authorization: Bearer …` with an API key or a token, or `X-API-Key: …`"


class Authenticator:
    """Says who calls. Threads share it.

    `keys` are looked at on every call, so one that is revoked counts no more at once; `tokens` None: none are taken.
    Every refusal is a NotAuthenticated that quotes nothing of what was shown. KeysUnusable and IssuerUnavailable say
    that it cannot be told now: never take them for somebody who may call.
    """

    def __init__(self, keys: KeyFile, tokens: "OidcTokens | None" = None) -> None:
        self.keys, self._tokens = keys, tokens

    @classmethod
    def of(cls, settings: Settings, *, clock: Callable[[], float] = time.time) -> "Authenticator":
        """As the settings say. Raises InvalidSetting, and KeysUnusable for a keys file that is damaged already.

        `clock` tells seconds since 1970, by which keys expire.
        """
        keys = key_file(settings, clock=clock)
        keys.list()
        return cls(keys, _tokens(settings))

    def caller(self, authorization: str | None, api_key: str | None) -> Caller:
        """Who shows these headers: `Authorization` and `X-API-Key`, of which one is to be sent.

        May wait for the issuer of tokens (settings `oidc_timeout_s`), so an event loop asks `known` first.
        """
        text, tokens = self._shown(authorization, api_key)
        return tokens.caller(text) if tokens else self._holder(text)

    def known(self, authorization: str | None, api_key: str | None) -> Caller | None:
        """The same without waiting; None if `caller` has to ask the issuer."""
        text, tokens = self._shown(authorization, api_key)
        return tokens.known(text) if tokens else self._holder(text)

    def _shown(self, authorization: str | None, api_key: str | None) -> tuple[str, "OidcTokens | None"]:
        """The text, and who reads it: None for a key. Raises NotAuthenticated if none is sent, or two are."""
        if authorization is not None and api_key is not None:
            raise NotAuthenticated(f"two headers say who calls; {HOW}")
        if api_key is not None:
            return api_key.strip(), None
        scheme, _, text = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not text:
            raise NotAuthenticated(f"nothing says who calls; {HOW}")
        return text.strip(), None if _is_key(text.strip()) else self._tokens

    def _holder(self, text: str) -> Caller:
        key = self.keys.find(text)
        if key is None:
            raise NotAuthenticated("the API key is not known, has expired or was revoked")
        return caller_with(key)


def authentication_of(settings: Settings) -> Authenticator | None:
    """Who says who calls; None if nobody is asked: there is no keys file, none is named, and no issuer.

    A keys file that is named (`keys_file`) need not be there yet: until it is, no key is good.
    Raises InvalidSetting and KeysUnusable.
    """
    wanted = settings.keys_file or settings.oidc_issuer or key_file(settings).exists()
    return Authenticator.of(settings) if wanted else None


def key_file(settings: Settings, *, clock: Callable[[], float] = time.time) -> KeyFile:
    return KeyFile(settings.keys_path, lock_timeout_s=settings.write_timeout_s, clock=clock)


def caller_with(key: ApiKey) -> Caller:
    """The caller that a good key names."""
    caller_id = f"key:{key.id}"
    return Caller(
        id=caller_id,
        name=key.name,
        scopes=frozenset(key.scopes),
        principal=None if key.everything else Principal(groups=key.groups),
    )


def _tokens(settings: Settings) -> "OidcTokens | None":
    if not settings.oidc_issuer:
        return None
    from waygraph.registry.authentication.oidc import OidcTokens

    return OidcTokens.of(settings)


def _is_key(text: str) -> bool:
    """No JSON Web Token begins so: it begins with a JSON object in base64, `ey…`."""
    return text.startswith("wg_")
