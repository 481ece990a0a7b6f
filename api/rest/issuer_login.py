"""A person shows at the operator's issuer who they are (OpenID Connect Core 1.0, 3.1, with PKCE): the issuer's token
for this service is the proof.
"""

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from starlette.requests import Request

from waygraph.api.rest.service import Service
from waygraph.registry.access.visibility import Scope
from waygraph.registry.model.errors import NotAllowed, NotAuthenticated


async def begin_at_issuer(
    service: "Service", request: "Request", callback: str, scopes: "Iterable[Scope]"
) -> tuple[str, dict[str, str]]:
    """The issuer's page, and what the browser is to bring back from it to `callback`: keep it from everybody else.

    Raises NotAllowed without a client at an issuer, TooManyRequests, IssuerUnavailable.
    """
    settings = service.settings
    if not settings.oidc_client_id or not settings.oidc_issuer:
        raise NotAllowed("this service has no client at an issuer (WAYGRAPH_OIDC_CLIENT_ID)")
    count_stranger(service, request)
    page = await service.lanes.wait(lambda: _documents(service).login_page())
    way = {"state": secrets.token_urlsafe(24), "verifier": secrets.token_urlsafe(48)}
    challenge = urlsafe_b64encode(sha256(way["verifier"].encode()).digest()).rstrip(b"=").decode()
    parameters = {
        "response_type": "code",
        "client_id": settings.oidc_client_id,
        "redirect_uri": callback,
        "scope": " ".join(("openid", *(f"{settings.oidc_scope_prefix}{scope}" for scope in scopes))),
        "state": way["state"],
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": settings.oidc_audience,
    }
    return str(page.copy_merge_params(parameters)), way


async def come_from_issuer(service: "Service", request: "Request", callback: str, way: Mapping[str, str]) -> str:
    """The issuer's token. `way`: what the browser brings. Raises NotAllowed, NotAuthenticated, IssuerUnavailable."""
    settings, parameters = service.settings, parameters_of(request)
    if not way or not hmac.compare_digest(parameters.get("state", "").encode(), way["state"].encode()):
        raise NotAllowed("this browser did not go to the issuer a short time ago: begin the login again")
    if "code" not in parameters:
        raise NotAuthenticated("the issuer says of nobody that they are here")
    count_stranger(service, request)
    form = {
        "grant_type": "authorization_code",
        "code": parameters["code"],
        "redirect_uri": callback,
        "client_id": settings.oidc_client_id,
        "code_verifier": way["verifier"],
        "resource": settings.oidc_audience,
        **({"client_secret": settings.oidc_client_secret} if settings.oidc_client_secret else {}),
    }
    answer = await service.lanes.wait(lambda: _documents(service).redeem_code(form, parameters.get("iss")))
    return str(answer.get("access_token", ""))


def parameters_of(request: "Request") -> dict[str, str]:
    """What an issuer sent with the browser. Raises NotAllowed where one is there twice (RFC 6749, 3.1)."""
    pairs = request.query_params.multi_items()
    if len(dict(pairs)) < len(pairs):
        raise NotAllowed("the issuer's answer says a thing twice: begin the login again")
    return dict(pairs)


def count_stranger(service: "Service", request: "Request") -> None:
    """Raises TooManyRequests: whoever is not known has us ask the issuer, or guesses."""
    service.failures.count_failure(request.client.host if request.client else "")


def _documents(service: "Service") -> Any:
    from waygraph.registry.access.oidc import IssuerDocuments

    return IssuerDocuments.of(service.settings)
