"""Callers' logins at a protected server, as if each person had logged in for themselves."""

import base64
import secrets
from typing import Any

from tests.identity_provider import Login as RealmLogin
from tests.protected_server import ProtectedServer
from waygraph.ingest.logins.store import Login, LoginFile

KEY = base64.b64encode(b"k" * 32).decode()
OTHER_KEY = base64.b64encode(b"o" * 32).decode()


def enroll(server: ProtectedServer, person: str) -> dict[str, Any]:
    """What is kept of a login of this person, who is one of the realm from now on."""
    realm, client_id = server.realm, secrets.token_hex(8)
    client = {"client_id": client_id, "redirect_uris": ["http://127.0.0.1:1/"], "token_endpoint_auth_method": "none"}
    realm.clients[client_id] = client
    realm.people.setdefault(person, {})
    login = RealmLogin(secrets.token_hex(8), client_id, person, server.url, "")
    renewal = realm.make_secret("refresh")
    realm.renewals[renewal] = login
    tokens = {
        "access_token": realm.access_token(login),
        "token_type": "Bearer",
        "refresh_token": renewal,
        "expires_in": realm.lifetime_s,
    }
    return {"tokens": tokens, "expires_at": None, "client": client, "issuer": realm.metadata()}


def log_in(server: ProtectedServer, file: LoginFile, caller: str, person: str, agent_id: str = "desk") -> Login:
    return file.put(caller, agent_id, server.url, "oauth", enroll(server, person))
