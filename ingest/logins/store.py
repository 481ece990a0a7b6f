"""Callers' own logins at servers: one file of the owner alone, in which each login is encrypted for itself.

Whose a login is and of which agent can be read without the key. What it holds (tokens, a key that the caller typed) is
encrypted by AES-256-GCM, and bound to the caller, the agent and the server's address: an entry that is moved to
another caller, or is used for another address, cannot be opened.
"""

import base64
import binascii
import json
import os
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import anyio

from waygraph.ingest.manifest.records import UserLogin
from waygraph.registry.model.errors import LoginsUnusable, RegistryLocked, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.files import content_if_there, file_stamp, write_lock, write_private
from waygraph.registry.model.numbers import FAR_S, read_digits, read_number
from waygraph.registry.model.settings import Settings

VERSION = 1
KEY_BYTES, NONCE_BYTES = 32, 12
HOW_TO_MAKE = "`openssl rand -base64 32` makes one"
NO_KEY = f"it needs a key in WAYGRAPH_LOGIN_KEY, 32 random bytes in base64: {HOW_TO_MAKE}"
OTHER_KEY = "it was written with another key than that in WAYGRAPH_LOGIN_KEY; set the former one, or remove the file"
MOVED_LOGIN = "an entry of it was changed or moved from elsewhere; `waygraph logins remove` removes it"
BEGUN_LOGIN = "begun"
"""In place of how one logs in: a login that waits for the caller to come back from the issuer."""
_BEGUN_S = 3_600.0
"""So long one that was begun and not finished is kept at most."""
TURNS = 4_096
"""Lock files for renewals, which stay: callers come and go. Two logins that share one renew one after the other."""
_LOCK_TIMEOUT_S = 10.0
_POLL_S = 0.02


_CODE = re.compile(r"[\w.-]{1,60}", re.ASCII)


def refusal_code(text: object) -> str:
    """An issuer's reason, as RFC 6749 has them; empty for another: any page in the person's browser can send one."""
    return text if isinstance(text, str) and _CODE.fullmatch(text) else ""


_OF_TOKENS = ("access_token", "token_type", "expires_in", "scope", "refresh_token", "error")


def read_token(status: int, content: bytes) -> tuple[int, dict[str, Any]]:
    """Return the status and the fields of an issuer's answer with a token (RFC 6749, 5.1 and 5.2), whatever the form.

    Issuers also answer form-encoded, say an error with HTTP 200, or send an `expires_in` that is no time. A token that
    ends at once would be asked for again at each request: without a sound time none is said. Empty: no such answer.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = dict(parse_qsl(content.decode("utf-8", "replace")))
    if not isinstance(document, dict) or not {"access_token", "error"} & document.keys():
        return status, {}
    fields = {name: document[name] for name in _OF_TOKENS if document.get(name) not in (None, "")}
    lifetime = fields.pop("expires_in", None)
    lasts_s = read_digits(lifetime) if isinstance(lifetime, str) else read_number(lifetime, 1, FAR_S)
    if lasts_s:
        fields["expires_in"] = int(lasts_s)
    if isinstance(scopes := fields.get("scope"), list):
        fields["scope"] = " ".join(map(str, scopes))
    if status // 100 == 2:
        status = 200 if "access_token" in fields else 400
    return status, fields


class LoginRefused(UpstreamRefused):
    """The server takes no request with the login that it was sent, or without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Of one caller at the server of one agent. `by`: how it was made (`oauth`, `header`); `at`: when, in ISO 8601.

    `address` is a digest. `id` is of this very login, and stays while its tokens are renewed.
    """

    caller: str
    agent_id: str
    by: str
    address: str = field(repr=False)
    id: str = field(repr=False)
    at: str
    key: str = field(default="", repr=False)
    """Which key it was encrypted with, as `key_id` has it."""
    box: str = field(default="", repr=False)

    @property
    def user(self) -> UserLogin:
        return UserLogin(caller=self.caller, agent_id=self.agent_id, id=self.id)

    def is_of(self, caller: str, agent_id: str) -> bool:
        """Empty: of any."""
        return caller in ("", self.caller) and agent_id in ("", self.agent_id)

    def age_s(self) -> float:
        return (datetime.now(UTC) - datetime.fromisoformat(self.at)).total_seconds()

    def binding(self) -> bytes:
        return json.dumps([VERSION, self.caller, self.agent_id, self.by, self.address, self.id]).encode()


_Index = dict[tuple[str, str, bool], Login]
"""By caller, agent, and whether it is only begun: of each there is one at most."""


MOST_LOGIN_BYTES = 64 * 1024
"""Of one login: its tokens, and what is kept of its issuer and client."""


class LoginFile:
    """The logins in one file, which need not be there yet. Threads and processes may share it.

    `issuer`: of the gateway's OIDC tokens. Another issuer may give a caller's id to somebody else.

    Every method raises LoginsUnusable for a file that is damaged, and StorageFailed where it cannot be read or written;
    those that encrypt or decrypt raise LoginsUnusable without a key, or with another one than the file's.
    """

    def __init__(self, path: Path, key: str = "", issuer: str = "") -> None:
        self.path, self._key_text, self._issuer = path, key, issuer
        self._key: bytes | None = None
        self._index: tuple[tuple[int, ...], _Index] = (), {}

    def check_key(self) -> None:
        """Raises LoginsUnusable without a key."""
        self._read_key()

    def list(self) -> tuple[Login, ...]:
        """By caller and agent. It needs no key."""
        return tuple(login for login in self._current().values() if login.by != BEGUN_LOGIN)

    def find(self, caller: str, agent_id: str, address: str) -> Login | None:
        """The login that stands now, for this address of the server."""
        login = self._current().get((caller, agent_id, False))
        return login if login and login.address == self.place_of(caller, address) else None

    def has(self, caller: str, agent_id: str, by: str) -> bool:
        """Whether the caller has a login at the agent, for whatever address. It needs no key."""
        login = self._current().get((caller, agent_id, False))
        return login is not None and login.by == by

    def place_of(self, caller: str, address: str) -> str:
        """A digest of the server's address, and of the issuer that knows the caller."""
        return digest_of(f"{self._issuer} {address}" if caller.startswith("oidc:") else address)

    def open(self, login: Login) -> dict[str, Any]:
        """What it holds."""
        return self._decrypt(login.box, login.key, login.binding())

    def put(
        self, caller: str, agent_id: str, address: str, by: str, content: Mapping[str, Any], *, login_id: str = ""
    ) -> Login:
        """A new login in place of the one that there is; one that is begun replaces only another that is begun."""
        login = Login(
            caller=caller,
            agent_id=agent_id,
            by=by,
            address=self.place_of(caller, address),
            id=login_id or secrets.token_hex(8),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        entry = self._seal(login, content)

        def replace_former(logins: tuple[Login, ...]) -> Iterable[Login]:
            others = (
                o for o in logins if not o.is_of(caller, agent_id) or (o.by == BEGUN_LOGIN) != (by == BEGUN_LOGIN)
            )
            return (*(o for o in others if o.by != BEGUN_LOGIN or o.age_s() < _BEGUN_S), entry)

        self._change(replace_former)
        return entry

    def keep(self, user: UserLogin, parts: Mapping[str, Any]) -> None:
        """In place of what this very login holds under these names. Raises UpstreamRefused if it was forgotten."""

        def renew(logins: tuple[Login, ...]) -> Iterable[Login]:
            former = next((login for login in logins if login.user == user and login.by != BEGUN_LOGIN), None)
            if former is None:
                raise UpstreamRefused("the caller's login was forgotten")
            entry = self._seal(former, {**self.open(former), **parts})
            return (entry if login is former else login for login in logins)

        self._read_key()  # it may take the lock of the file itself
        self._change(renew)

    def take(self, caller: str, agent_id: str, login_id: str) -> Login | None:
        """One that this caller began, which is taken once."""
        logins = self._remove(
            lambda login: login.is_of(caller, agent_id) and (login.by, login.id) == (BEGUN_LOGIN, login_id)
        )
        return logins[0] if logins else None

    def forget(self, caller: str = "", agent_id: str = "", *, login_id: str = "") -> tuple[Login, ...]:
        """Those of the caller, at the agent, of this id; empty: of any. It needs no key. Tells what is gone."""
        logins = self._remove(lambda login: login.is_of(caller, agent_id) and login_id in ("", login.id))
        return tuple(login for login in logins if login.by != BEGUN_LOGIN)

    def _remove(self, is_meant: Callable[[Login], bool]) -> tuple[Login, ...]:
        matches: list[Login] = []

        def remove(logins: tuple[Login, ...]) -> Iterable[Login]:
            matches.extend(filter(is_meant, logins))
            return (login for login in logins if login not in matches)

        if any(map(is_meant, self._current().values())):
            self._change(remove)
        return tuple(matches)

    # -- encryption ------------------------------------------------------------------------------

    def seal_text(self, content: Mapping[str, Any], purpose: str) -> str:
        """A text that nobody but who has the key can read or make, for this purpose."""
        return self._encrypt(content, purpose.encode())

    def open_text(self, text: str, purpose: str) -> dict[str, Any]:
        """Raises LoginsUnusable for any other text."""
        return self._decrypt(text, self._key_id(), purpose.encode())

    def _seal(self, login: Login, content: Mapping[str, Any]) -> Login:
        return replace(login, key=self._key_id(), box=self._encrypt(content, login.binding()))

    def _encrypt(self, content: Mapping[str, Any], purpose: bytes) -> str:
        """Raises UpstreamRefused for more than a login has."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(NONCE_BYTES)
        box = AESGCM(self._read_key()).encrypt(nonce, login_text(content), purpose)
        return base64.urlsafe_b64encode(nonce + box).decode()

    def _decrypt(self, text: str, key_id: str, purpose: bytes) -> dict[str, Any]:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if key_id != self._key_id():
            raise self._unusable(OTHER_KEY)
        try:
            box = base64.urlsafe_b64decode(text)
            return dict(json.loads(AESGCM(self._read_key()).decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], purpose)))
        except (InvalidTag, ValueError, TypeError):
            raise self._unusable(MOVED_LOGIN) from None

    def _key_id(self) -> str:
        return sha256(b"waygraph login key" + self._read_key()).hexdigest()[:12]

    def _read_key(self) -> bytes:
        if self._key is None:
            if not (text := self._key_text or self._keyring_key()):
                raise self._unusable(NO_KEY)
            try:
                key = base64.b64decode(text.strip().translate(str.maketrans("-_", "+/")), validate=True)
            except (binascii.Error, ValueError):
                key = b""
            if len(key) != KEY_BYTES:
                raise self._unusable(f"WAYGRAPH_LOGIN_KEY is no key, which has 32 bytes in base64: {HOW_TO_MAKE}")
            self._key = key
        return self._key

    def _keyring_key(self) -> str:
        """The user's, made the first time; empty where there is no package for it."""
        try:
            import keyring  # pyright: ignore[reportMissingImports] - the extra `keyring`
        except ImportError:
            return ""
        try:
            with write_lock(self.path, _LOCK_TIMEOUT_S, brief=False):
                if not keyring.get_password("waygraph", "logins"):
                    keyring.set_password("waygraph", "logins", base64.b64encode(os.urandom(KEY_BYTES)).decode())
                return str(keyring.get_password("waygraph", "logins") or "")
        except keyring.errors.KeyringError as exc:
            raise self._unusable(f"the keyring gives no key ({type(exc).__name__}); {NO_KEY}") from None

    # -- the file --------------------------------------------------------------------------------

    def _current(self) -> "_Index":
        """As the file is now; it is read only if it changed."""
        index = self._index
        if (stamp := file_stamp(self.path)) is None:
            return {}
        if index[0] != stamp:
            index = self._index = stamp, {(o.caller, o.agent_id, o.by == BEGUN_LOGIN): o for o in self._parse()}
        return index[1]

    def _parse(self) -> tuple[Login, ...]:
        if (content := content_if_there(self.path)) is None:
            return ()  # it was removed just now
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            if (document := json.loads(content))["waygraph_logins"] == VERSION:
                return tuple(Login(**{name: str(value) for name, value in each.items()}) for each in document["logins"])
        raise self._unusable("it is damaged, or of another version; restore it, or remove it so that all log in anew")

    def _change(self, change: Callable[[tuple[Login, ...]], Iterable[Login]]) -> None:
        with write_lock(self.path, _LOCK_TIMEOUT_S):
            logins = sorted(
                change(tuple(self._current().values())), key=lambda login: (login.caller, login.agent_id, login.by)
            )
            write_private(self.path, {"waygraph_logins": VERSION, "logins": [asdict(login) for login in logins]})

    def _unusable(self, reason: str) -> LoginsUnusable:
        return LoginsUnusable(self.path, reason)


def login_file(settings: Settings) -> LoginFile:
    """The file in the data folder."""
    return _login_file(settings.data_path / "logins.json", settings.login_key, settings.oidc_issuer)


@lru_cache(maxsize=16)
def _login_file(path: Path, key: str, issuer: str) -> LoginFile:
    return LoginFile(path, key, issuer)


def login_text(content: object) -> bytes:
    """As JSON. Raises UpstreamRefused for more than a login has: each request would carry its token."""
    if len(text := json.dumps(content).encode()) > MOST_LOGIN_BYTES:
        raise UpstreamRefused(f"the issuer gave a login of {len(text):,} bytes, {MOST_LOGIN_BYTES:,} are kept")
    return text


def digest_of(text: str) -> str:
    """Of what may hold a secret: an address, a state, a token."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class LoginEntry:
    """One login as the place where tokens are kept, as `TokenFile` is for the operator's."""

    file: LoginFile
    user: UserLogin
    address: str = field(repr=False)

    def read(self) -> dict[str, Any]:
        login = self.file.find(self.user.caller, self.user.agent_id, self.address)
        return self.file.open(login) if login and login.user == self.user else {}

    def keep(self, **parts: Any) -> None:
        """Raises UpstreamRefused if it was forgotten meanwhile: it does not come back."""
        self.file.keep(self.user, parts)

    def alone(self, timeout_s: float) -> AbstractAsyncContextManager[None]:
        number = int(digest_of(f"{self.user.caller} {self.user.agent_id}"), 16) % TURNS
        return take_turn(self.file.path, f"callers {number}", timeout_s)

    def forget(self) -> None:
        self.file.forget(self.user.caller, self.user.agent_id, login_id=self.user.id)


@asynccontextmanager
async def take_turn(path: Path, name: str, timeout_s: float) -> AsyncGenerator[None]:
    """Among all tasks, threads and processes that change the login of this name. The file stays free for all others.

    Raises UpstreamUnreachable after `timeout_s`, StorageFailed where no lock can be made.
    """
    lock_name = f"login-{sha256(name.encode()).hexdigest()[:16]}"
    deadline = anyio.current_time() + timeout_s
    with ExitStack() as lock:
        while True:
            try:
                lock.enter_context(write_lock(path.with_name(lock_name), 0.0, brief=False))
                break
            except RegistryLocked:
                if anyio.current_time() >= deadline:
                    raise UpstreamUnreachable(
                        f"another connection renews its login, or asks for it; gave up after {timeout_s:g} s"
                    ) from None
            await anyio.sleep(_POLL_S)
        yield
