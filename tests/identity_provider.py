"""An identity provider on loopback, over real HTTP: realms, their people, and the tokens that clients get for them.

It speaks OpenID Connect Discovery and RFC 8414, authorization codes with PKCE (S256 alone), `iss` beside the code (RFC
9207), dynamic registration (RFC 7591) and clients' metadata documents, resources as audiences (RFC 8707), renewal with
a new token for each old one, revocation (RFC 7009) and token exchange (RFC 8693). Who uses an old renewal token or a
code again ends the login (RFC 9700, 4.14.2).
"""

import base64
import hashlib
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html import escape
from html.parser import HTMLParser
from typing import Any, Literal, Self
from urllib.parse import unquote, urlencode, urljoin

import httpx2
import jwt
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.fake_issuer import Signer, signer
from tests.upstream.served import running

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type's name
TOKEN_TYPES = (ACCESS_TOKEN, "urn:ietf:params:oauth:token-type:jwt")
PATIENCE_S = 60.0

type Given = Mapping[str, str]
"""The parameters of a request."""


class Refused(Exception):
    """An error of RFC 6749, 5.2."""

    def __init__(self, error: str, status: int = 400) -> None:
        super().__init__(error)
        self.error, self.status = error, status


@dataclass(frozen=True)
class Login:
    """What a person agreed to once. All tokens that come of it end with it."""

    id: str
    client: str
    person: str
    audience: str
    scope: str


@dataclass(frozen=True)
class Code:
    """An authorization code's other half."""

    login: Login
    redirect_uri: str
    challenge: str
    nonce: str | None


@dataclass(frozen=True)
class Event:
    """What the realm did: `issued` by a code, `refreshed`, `exchanged`, `revoked`; `reused`: a login ended for it."""

    what: Literal["issued", "refreshed", "exchanged", "revoked", "reused"]
    client: str
    person: str
    audience: str


@dataclass
class Realm:
    """An issuer of its own keys, people and clients. Change the fields while it runs.

    `people`: further claims by name. A subject is `ann@realm`, so that two realms never have one in common.
    """

    name: str
    origin: str
    people: dict[str, dict[str, Any]] = field(default_factory=lambda: {"ann": {}, "bob": {}})
    lifetime_s: int = 3600
    """Of an access token."""
    documents: ssl.SSLContext | None = None
    """How it fetches the documents by which clients name themselves; None: it takes none."""
    registers: bool = True
    """Whether any client may register."""
    may_exchange: set[tuple[str, str, str]] = field(default_factory=set)
    """Client, audience of the token that it shows, audience of the token that it gets."""
    trusted: list["Realm"] = field(default_factory=list)
    """Whose tokens may be exchanged here, beside its own."""
    said: dict[str, Any] = field(default_factory=dict)
    """In its metadata, in place of what is true; None: it does not say it."""
    told_of_tokens: dict[str, Any] = field(default_factory=dict)
    """In the answer with a token, in place of what is true."""
    token_answer: Callable[[dict[str, Any]], Response] = JSONResponse
    """The form of the answer with a token."""
    refuses: Callable[[str, Mapping[str, Any]], str] = lambda *_: ""
    """Of the path and the parameters of a registration, authorization or token: the error; empty: none."""
    default_audience: str = ""
    """Of a login that names no resource; empty: it has to name one."""
    answers_late_s: float = 0.0
    """Between the gift of a token and the answer that tells of it."""
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    tokens: dict[str, Login] = field(default_factory=dict)
    """Access tokens that are good."""
    renewals: dict[str, Login] = field(default_factory=dict)
    """Refresh tokens that are good."""
    secrets: set[str] = field(default_factory=set)
    """All that it ever gave to clients and browsers and nobody else may see."""
    asked: list[str] = field(default_factory=list)
    """Paths below the issuer."""
    events: list[Event] = field(default_factory=list)
    _sessions: dict[str, str] = field(default_factory=dict)
    _codes: dict[str, Code] = field(default_factory=dict)
    _spent: dict[str, Login] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def issuer(self) -> str:
        return f"{self.origin}/realms/{self.name}"

    @property
    def signer(self) -> Signer:
        return signer(f"key of {self.name}")

    def subject(self, person: str) -> str:
        return f"{person}@{self.name}"

    def add_client(self, client_id: str, *redirect_uris: str) -> str:
        """Make known a client with a secret, by hand; gives the secret."""
        secret = self.make_secret("client-secret")
        self.clients[client_id] = {
            "client_id": client_id,
            "client_secret": secret,
            "redirect_uris": list(redirect_uris),
            "token_endpoint_auth_method": "client_secret_basic",
        }
        return secret

    def issue(self, person: str, audience: str, scope: str = "", client: str = "test", **claims: object) -> str:
        """A token without a login, with claims in place of the true ones."""
        login = Login(secrets.token_hex(8), client, person, audience, scope)
        return self.access_token(login, **claims)

    def claims(self, token: str) -> dict[str, Any] | None:
        """Of a token that is good now, for whatever audience."""
        if token not in self.tokens:
            return None
        try:
            told: dict[str, Any] = jwt.decode(
                token,
                jwt.PyJWK(dict(self.signer.jwk)),
                ["ES256"],
                issuer=self.issuer,
                options={"verify_aud": False, "verify_exp": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            return None
        return told if told["exp"] > time.time() else None  # by the clock that tests move

    def end_logins(self, person: str | None = None) -> None:
        """Of one person, or of all; browsers stay logged in at the realm itself."""
        with self._lock:
            for held in (self.tokens, self.renewals):
                for text in [text for text, login in held.items() if person in (None, login.person)]:
                    del held[text]

    def count(self, what: str, person: str | None = None) -> int:
        return sum(event.what == what and person in (None, event.person) for event in self.events)

    # What browsers and clients ask

    def answer(self, request: Request, given: Given) -> Response:
        path = request.path_params["path"]
        self.asked.append(path)
        match request.method, path:
            case "GET", ".well-known/openid-configuration":
                answer: dict[str, Any] = self.metadata()
            case "GET", "keys":
                answer = {"keys": [self.signer.jwk]}
            case "GET", "authorize":
                return self._authorize(str(request.url), request.cookies.get("session", ""), given)
            case "POST", "login":
                return self._log_in(given)
            case "POST", "token":
                with self._lock:
                    answer = self._token(self._authenticated(request, given), given)
                time.sleep(self.answers_late_s)
                return self.token_answer(answer)
            case "POST", "revoke":
                with self._lock:
                    answer = self._revoke(self._authenticated(request, given), given["token"])
            case _:
                raise Refused("not_found", 404)
        return JSONResponse(answer, headers={"cache-control": "no-store"})

    def register(self, asked: Mapping[str, Any]) -> Response:
        """RFC 7591, 3."""
        if not self.registers:
            raise Refused("access_denied", 403)
        self.asked.append("register")
        if error := self.refuses("register", asked):
            raise Refused(error)
        client = {"token_endpoint_auth_method": "client_secret_basic", **asked, "client_id": secrets.token_hex(8)}
        if not asked.get("redirect_uris"):
            raise Refused("invalid_redirect_uri")
        if client["token_endpoint_auth_method"] != "none":  # noqa: S105 - a method's name
            client |= {"client_secret": self.make_secret("client-secret"), "client_secret_expires_at": 0}
        self.clients[client["client_id"]] = client
        return JSONResponse(client, 201)

    def metadata(self) -> dict[str, Any]:
        metadata = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "jwks_uri": f"{self.issuer}/keys",
            **({"registration_endpoint": f"{self.issuer}/register"} if self.registers else {}),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", EXCHANGE],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "subject_types_supported": ["public"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self.documents is not None,
            **self.said,
        }
        return {name: value for name, value in metadata.items() if value is not None}

    def _client(self, client_id: str) -> dict[str, Any]:
        """One that registered, or names itself by the address of its document."""
        if self.documents is not None and client_id.startswith("https://"):
            document: dict[str, Any] = httpx2.get(client_id, verify=self.documents).raise_for_status().json()
            if document["client_id"] == client_id:
                return {"token_endpoint_auth_method": "none", **document}
        if client_id not in self.clients:
            raise Refused("invalid_client", 401)
        return self.clients[client_id]

    def _authorize(self, page: str, cookie: str, given: Given) -> Response:
        """RFC 6749, 4.1.1. Nobody is sent to an address that the client has not named before."""
        client, target = self._client(given.get("client_id", "")), given.get("redirect_uri", "")
        if target not in client["redirect_uris"]:
            raise Refused("invalid_request")

        def back(**more: str) -> Response:
            state = {"state": given["state"]} if "state" in given else {}
            return RedirectResponse(f"{target}?{urlencode({'iss': self.metadata()['issuer'], **state, **more})}", 302)

        if given.get("response_type") != "code":
            return back(error="unsupported_response_type")
        if given.get("code_challenge_method") != "S256" or len(given.get("code_challenge", "")) != 43:
            return back(error="invalid_request")
        audience = given.get("resource", self.default_audience)
        if error := self.refuses("authorize", given) or ("" if audience else "invalid_target"):
            return back(error=error)
        if (person := self._sessions.get(cookie)) is None:
            return HTMLResponse(_LOGIN.format(action=f"{self.issuer}/login", page=escape(page)))
        if person not in self.people:
            return back(error="access_denied")
        client_id, code = given["client_id"], self.make_secret("code")
        login = Login(secrets.token_hex(8), client_id, person, audience, given.get("scope", ""))
        self._codes[code] = Code(login, target, given["code_challenge"], given.get("nonce"))
        return back(code=code)

    def _log_in(self, given: Given) -> Response:
        """A person's browser has a session from now on, and goes back to where it came from."""
        if given["name"] not in self.people or given["password"] != password(given["name"]):
            raise Refused("access_denied", 403)
        if not given["page"].startswith(f"{self.issuer}/authorize?"):
            raise Refused("invalid_request")
        session = self.make_secret("session")
        self._sessions[session] = given["name"]
        answer = RedirectResponse(given["page"], 303)
        answer.set_cookie("session", session, path=f"/realms/{self.name}", httponly=True, samesite="lax")
        return answer

    def _authenticated(self, request: Request, given: Given) -> dict[str, Any]:
        """The client, by its secret if it has one (RFC 6749, 2.3)."""
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        client_id, secret = given.get("client_id", ""), given.get("client_secret", "")
        if scheme.lower() == "basic":
            client_id, secret = map(unquote, base64.b64decode(shown).decode().split(":", 1))
        client = self._client(client_id)
        if secret != client.get("client_secret", ""):
            raise Refused("invalid_client", 401)
        return client

    def _token(self, client: Mapping[str, Any], given: Given) -> dict[str, Any]:
        client_id = client["client_id"]
        if error := self.refuses("token", given):
            raise Refused(error)
        match given.get("grant_type"):
            case "authorization_code":
                code = self._codes.pop(given["code"], None)
                if code is None:
                    raise self._used_again(given["code"], client_id)
                self._spent[given["code"]] = code.login
                proof = base64.urlsafe_b64encode(hashlib.sha256(given.get("code_verifier", "").encode()).digest())
                held = (code.login.client, code.redirect_uri, code.challenge)
                if held != (client_id, given.get("redirect_uri"), proof.rstrip(b"=").decode()):
                    raise Refused("invalid_grant")
                return self._gift("issued", code.login, given, code.nonce)
            case "refresh_token":
                login = self.renewals.get(given["refresh_token"])
                if login is None or login.client != client_id:
                    raise self._used_again(given["refresh_token"], client_id)
                self._spent[given["refresh_token"]] = self.renewals.pop(given["refresh_token"])
                return self._gift("refreshed", login, given)
            case grant if grant == EXCHANGE:
                return self._exchange(client, given)
        raise Refused("unsupported_grant_type")

    def _used_again(self, text: str, client_id: str) -> Refused:
        """Stolen, for all that can be known: nothing that came of the login is good any more."""
        if (login := self._spent.get(text)) is not None and login.client == client_id:
            self._end(login)
            self._note("reused", login)
        return Refused("invalid_grant")

    def _gift(self, what: Any, login: Login, given: Given, nonce: str | None = None) -> dict[str, Any]:
        if given.get("resource", login.audience) != login.audience:
            raise Refused("invalid_target")
        renewal = self.make_secret("refresh")
        self.renewals[renewal] = login
        answer = {
            "access_token": self.access_token(login),
            "token_type": "Bearer",
            "expires_in": self.lifetime_s,
            "refresh_token": renewal,
            "scope": login.scope,
            **self.told_of_tokens,
        }
        if "openid" in login.scope.split():
            answer["id_token"] = self._signed(login, aud=login.client, nonce=nonce)
        self._note(what, login)
        return answer

    def _exchange(self, client: Mapping[str, Any], given: Given) -> dict[str, Any]:
        """RFC 8693, 2: for a client with a secret, by the policy."""
        if "client_secret" not in client:
            raise Refused("unauthorized_client")
        if given.get("subject_token_type") not in TOKEN_TYPES:
            raise Refused("invalid_request")
        token, audience = given["subject_token"], given.get("resource") or given.get("audience", "")
        realm = next((realm for realm in (self, *self.trusted) if realm.claims(token)), None)
        if realm is None:
            raise Refused("invalid_request")
        subject = realm.tokens[token]
        if (client["client_id"], subject.audience, audience) not in self.may_exchange:
            raise Refused("invalid_target")
        if subject.person not in self.people:
            raise Refused("access_denied")
        login = Login(subject.id, client["client_id"], subject.person, audience, given.get("scope", ""))
        made = self.access_token(login, act={"sub": client["client_id"]})
        self._note("exchanged", login)
        kind = {"issued_token_type": ACCESS_TOKEN, "token_type": "Bearer"}
        return {"access_token": made, "expires_in": self.lifetime_s, **kind, **self.told_of_tokens}

    def _revoke(self, client: Mapping[str, Any], token: str) -> dict[str, Any]:
        login = self.renewals.get(token) or self.tokens.get(token)
        if login is not None and login.client == client["client_id"]:
            self._end(login)
            self._note("revoked", login)
        return {}

    def _end(self, login: Login) -> None:
        for held in (self.tokens, self.renewals):
            for text in [text for text, of in held.items() if of.id == login.id]:
                del held[text]

    def access_token(self, login: Login, **claims: object) -> str:
        scope = login.scope or None
        told = {"aud": login.audience, "client_id": login.client, "scope": scope} | claims
        made = self._signed(login, **told)
        self.tokens[made] = login
        return made

    def _signed(self, login: Login, **claims: object) -> str:
        now_s = int(time.time())
        good = {
            "iss": self.issuer,
            "sub": self.subject(login.person),
            "iat": now_s,
            "exp": now_s + self.lifetime_s,
            "jti": secrets.token_hex(8),
            **self.people.get(login.person, {}),
            **claims,
        }
        made = self.signer.token({name: value for name, value in good.items() if value is not None})
        self.secrets.add(made)
        return made

    def make_secret(self, kind: str) -> str:
        made = f"{kind}-{secrets.token_hex(16)}"
        self.secrets.add(made)
        return made

    def _note(self, what: Any, login: Login) -> None:
        self.events.append(Event(what, login.client, login.person, login.audience))


_LOGIN = """<!doctype html><title>Log in</title><form id="realm-login" method="post" action="{action}">
<input type="hidden" name="page" value="{page}"><input name="name"><input name="password" type="password"></form>"""


def password(person: str) -> str:
    return f"password-of-{person}"


@contextmanager
def identity_provider(*names: str) -> Iterator[list[Realm]]:
    """A realm of each name, all of one server."""
    realms = {name: Realm(name, "") for name in names}

    async def endpoint(request: Request) -> Response:
        realm = realms.get(request.path_params["realm"])
        if realm is None:
            return JSONResponse({}, 404)
        is_registration = request.path_params["path"] == "register" and request.method == "POST"
        query = request.query_params
        if len(query.multi_items()) != len(query):  # RFC 6749, 3.1
            return JSONResponse({"error": "invalid_request"}, 400)
        given = dict(query) | ({} if is_registration else dict(await request.form()))
        texts = {name: str(value) for name, value in given.items()}
        work = (
            partial(realm.register, await request.json()) if is_registration else partial(realm.answer, request, texts)
        )
        try:
            return await run_in_threadpool(work)
        except Refused as refused:
            return JSONResponse({"error": refused.error}, refused.status)
        except KeyError as missing:
            return JSONResponse({"error": "invalid_request", "error_description": f"{missing} is missing"}, 400)

    async def well_known(request: Request) -> Response:
        request.path_params["path"] = ".well-known/openid-configuration"
        return await endpoint(request)

    app = Starlette(
        routes=[
            Route("/.well-known/oauth-authorization-server/realms/{realm}", well_known),
            Route("/realms/{realm}/{path:path}", endpoint, methods=["GET", "POST"]),
        ]
    )
    with running(app) as origin:
        for realm in realms.values():
            realm.origin = origin
        yield list(realms.values())


@dataclass
class Form(HTMLParser):
    """The first form of a page."""

    page: str
    id: str = ""
    method: str = "get"
    action: str = ""
    fields: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._forms = 0
        self.feed(self.page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._forms += 1
        if self._forms != 1:
            return
        if tag == "form":
            self.id, self.action = told.get("id", ""), told.get("action", "")
            self.method = told.get("method", "get").lower()
        elif tag in ("input", "button") and told.get("name"):
            self.fields[told["name"]] = told.get("value", "")


class Person:
    """Somebody with a browser of their own, which keeps cookies, and logs in wherever a realm asks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.browser = httpx2.Client(timeout=PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.browser.close()

    def open(self, page: str, until: str | None = None) -> httpx2.Response:
        """Follow the way of a page to where somebody has to decide, or to an address that begins with `until`.

        What is behind that address is not asked for: the last answer is the redirect.
        """
        return self._follow(self.browser.get(page), until)

    def submit(self, shown: httpx2.Response, until: str | None = None, **fields: str) -> httpx2.Response:
        """Press the button of the page's form."""
        form = Form(shown.text)
        target = urljoin(str(shown.url), form.action)
        filled = form.fields | fields
        if form.method == "post":
            return self._follow(self.browser.post(target, data=filled, headers={"origin": _origin(shown.url)}), until)
        return self._follow(self.browser.get(target, params=filled), until)

    def _follow(self, answer: httpx2.Response, until: str | None) -> httpx2.Response:
        for _ in range(20):
            if answer.is_redirect and answer.next_request is not None:
                if until and str(answer.next_request.url).startswith(until):
                    return answer
                answer = self.browser.send(answer.next_request)
            elif 'id="realm-login"' in answer.text:
                return self.submit(answer, until, name=self.name, password=password(self.name))
            else:
                return answer
        raise AssertionError(f"{answer.url} leads in circles")


def _origin(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode()}"
