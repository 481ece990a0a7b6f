"""API keys: random texts of which a file keeps only hashes.

A key reads `wg_<id>_<secret>`: the id, 12 hexadecimal characters, is public and names the key in lists and logs; the
secret is 32 random bytes in base64url. Of 256 random bits a plain SHA-256 is enough: a slow hash protects texts that
can be guessed, and would make each request slow.

Who reads the file learns names and groups but can call nothing, so it may be readable by others, as mounted secrets
often are: `KeyFile.caution` says so. Who writes it can give themselves any key, so one that everybody may write is
refused.
"""

import hmac
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from waygraph.registry.access.visibility import SCOPES, Scope
from waygraph.registry.model.changes import KeyState, KeySummary, NewKey
from waygraph.registry.model.errors import InvalidSetting, KeysUnusable, UnknownName
from waygraph.registry.model.files import PRIVATE, storage_errors, write_atomically, write_lock
from waygraph.registry.model.settings import WRITE_TIMEOUT
from waygraph.registry.model.validation import reason_of

KEY = re.compile(r"wg_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
MAX_NAME_CHARS = 200
LONGEST_LIFE = timedelta(days=36_500)
_SECRET_BYTES = 32
_OF_ENDPOINT: frozenset[Scope] = frozenset({"route", "use"})

type Signature = tuple[int, ...]
"""What changes with a file: device, inode, size, times of change in ns."""


def _check_time(text: str) -> str:
    if text and datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time needs its zone, such as +00:00")
    return text


def _check_plain(text: str) -> str:
    if not is_plain(text):
        raise ValueError("not one line of printable characters")
    return text


type Time = Annotated[str, AfterValidator(_check_time)]
type Plain = Annotated[str, AfterValidator(_check_plain)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key without its secret, as the file has it. Times are ISO 8601 in UTC; empty: never.

    `everything`: its holder sees all agents, hidden ones too. Otherwise it sees what is public and what its groups may.
    `toolset`: it reaches the endpoint of this toolset and nothing else; empty: everything. A field that is not known is
    refused: it may be a restriction that this version would not heed.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", hide_input_in_errors=True)

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    name: Plain
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)]
    groups: tuple[Plain, ...]
    everything: Annotated[bool, Field(strict=True)]
    toolset: Plain | Literal[""] = ""
    created_at: Time
    expires_at: Time
    revoked_at: Time
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = field(repr=False)
    """Of the whole key, in hexadecimal characters."""

    def state(self, at_s: float) -> KeyState:
        """What it is worth at a time, in seconds since 1970."""
        if self.revoked_at:
            return "revoked"
        ends = datetime.fromisoformat(self.expires_at).timestamp() if self.expires_at else float("inf")
        return "active" if at_s < ends else "expired"


def _check_sight(key: ApiKey) -> ApiKey:
    if key.everything and key.groups:
        raise ValueError("everything and groups exclude each other")
    return key


class StoredKeys(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    waygraph_keys: Literal[1]
    keys: list[Annotated[ApiKey, AfterValidator(_check_sight)]]

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        if len({key.id for key in self.keys}) < len(self.keys):
            raise ValueError("two keys have one id")
        return self


class KeyFile:
    """The keys in one file, which need not be there yet. Threads and processes may share it.

    `clock` tells seconds since 1970. Every method raises KeysUnusable for a file that is damaged, cannot be read, is
    writable by everybody, or is gone after it was read: it never counts as a file without keys.
    """

    def __init__(self, path: Path, *, lock_timeout_s: float = 30.0, clock: Callable[[], float] = time.time) -> None:
        self.path, self._lock_timeout_s, self._clock = path, lock_timeout_s, clock
        self._held: tuple[Signature, Mapping[str, ApiKey]] | None = None

    def create(
        self,
        name: str,
        scopes: Iterable[str],
        groups: Iterable[str] = (),
        *,
        everything: bool = False,
        toolset: str = "",
        expires_in: timedelta | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key and its text, which is kept nowhere.

        Raises InvalidSetting for a name, scope, group or life that cannot be, RegistryLocked if another process
        writes for too long, StorageFailed if the disk refuses.
        """
        scope_set, members = frozenset(scopes), tuple(dict.fromkeys(groups))
        _check_key(name, scope_set, members, everything, toolset)
        if expires_in is not None and not timedelta() < expires_in <= LONGEST_LIFE:
            raise InvalidSetting(f"a key lives for more than nothing and at most {LONGEST_LIFE.days} days, or for ever")

        def add_key(keys: Mapping[str, ApiKey]) -> tuple[dict[str, ApiKey], tuple[ApiKey, str]]:
            key_id = next(new for new in iter(lambda: secrets.token_hex(6), None) if new not in keys)
            text = f"wg_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
            key = ApiKey(
                id=key_id,
                name=name,
                scopes=tuple(scope for scope in SCOPES if scope in scope_set),
                groups=members,
                everything=everything,
                toolset=toolset,
                created_at=self._time(),
                expires_at=self._time(expires_in) if expires_in is not None else "",
                revoked_at="",
                sha256=_digest(text),
            )
            return {**keys, key_id: key}, (key, text)

        return self._change(add_key)

    def revoke(self, key_id: str) -> ApiKey:
        """Ends a key now, in every process that reads the file; one already revoked stays as it is.

        Takes an id, or a whole key that somebody found. Raises UnknownName, which tells no secret; RegistryLocked and
        StorageFailed as `create` does.
        """
        # The id that a text begins with; of another text so little that no secret is told.
        bare_id = key_id.strip().removeprefix("wg_").partition("_")[0][:12]

        def drop_key(keys: Mapping[str, ApiKey]) -> tuple[dict[str, ApiKey], ApiKey]:
            if bare_id not in keys:
                raise UnknownName("key", bare_id, keys, hint="`waygraph keys list` lists them.")
            key = keys[bare_id]
            ended_key = key if key.revoked_at else replace(key, revoked_at=self._time())
            return {**keys, bare_id: ended_key}, ended_key

        return self._change(drop_key)

    def list(self) -> tuple[ApiKey, ...]:
        """Every key, revoked and expired ones too, oldest first."""
        return tuple(self._current().values())

    def state(self, key: ApiKey) -> KeyState:
        return key.state(self._clock())

    def summary(self, key: ApiKey) -> KeySummary:
        return KeySummary(**self._facts(key))

    def new_key(self, key: ApiKey, text: str) -> NewKey:
        return NewKey(**self._facts(key), key=text)

    def _facts(self, key: ApiKey) -> dict[str, Any]:
        return {each.name: getattr(key, each.name, "") for each in fields(KeySummary)} | {"state": self.state(key)}

    def find(self, text: str) -> ApiKey | None:
        """The key with this text; None if it is unknown, expired or revoked. Looks at the file each time."""
        keys = self._current()
        if (parts := KEY.fullmatch(text)) is None:
            return None
        key = keys.get(parts[1])
        same = hmac.compare_digest(_digest(text), key.sha256 if key else "")
        return key if key and same and key.state(self._clock()) == "active" else None

    def exists(self) -> bool:
        """Whether there is such a file. Raises KeysUnusable if that cannot be told."""
        return self._stat() is not None

    def caution(self) -> str:
        """What the owner of the file should know; empty if nothing. Raises KeysUnusable."""
        status = self._stat()
        open_to = stat.S_IMODE(status.st_mode) & 0o077 if status else 0
        return (
            f"{self.path} is open to others than its owner: `chmod 600` it if they need not read it" if open_to else ""
        )

    def _time(self, later: timedelta = timedelta()) -> str:
        """Now, or later, in ISO 8601."""
        return (datetime.fromtimestamp(self._clock(), UTC) + later).isoformat(timespec="seconds")

    def _stat(self) -> os.stat_result | None:
        """None if there is no such file."""
        try:
            return self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise KeysUnusable(self.path, f"cannot be read: {exc.strerror}") from exc

    def _current(self) -> Mapping[str, ApiKey]:
        """Id → key as the file is now; it is read only if it changed."""
        status, content = self._stat(), self._held
        if status is None:
            if content is not None:
                raise KeysUnusable(self.path, "it is gone; put it back, or start the service anew")
            return {}
        if content is not None and content[0] == _signature(status):
            return content[1]
        fresh = self._held = self._read()
        return fresh[1]

    def _read(self) -> tuple[Signature, Mapping[str, ApiKey]]:

        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                content = file.read()
        except OSError as exc:
            raise KeysUnusable(self.path, f"cannot be read: {exc.strerror}") from exc
        if status.st_mode & stat.S_IWOTH:
            raise KeysUnusable(self.path, "everybody may write to it, and so make keys; `chmod 600` it")
        return _signature(status), read_keys(self.path, content)

    def _change[T](self, change: Callable[[Mapping[str, ApiKey]], tuple[Mapping[str, ApiKey], T]]) -> T:
        """Writes what `change` makes of the keys, while no other process does."""

        target = Path(os.path.realpath(self.path))  # a link stays one
        with write_lock(target, self._lock_timeout_s, setting=WRITE_TIMEOUT):
            keys, result = change(self._read()[1] if self.exists() else {})
            document = {"waygraph_keys": 1, "keys": [asdict(key) for key in keys.values()]}
            text = json.dumps(document, indent=1, ensure_ascii=False)
            with storage_errors(self.path):
                write_atomically(target, f"{text}\n".encode(), mode=PRIVATE)
        return result


def _check_key(name: str, scopes: frozenset[str], groups: tuple[str, ...], everything: bool, toolset: str) -> None:
    """Raises InvalidSetting."""
    if unknown := sorted(scopes.difference(SCOPES)):
        raise InvalidSetting(f"scope {unknown[0]!r} is not known; known: {', '.join(SCOPES)}")
    if not scopes:
        raise InvalidSetting(f"a key needs at least one scope of {', '.join(SCOPES)}")
    if everything and groups:
        raise InvalidSetting("a key sees everything or what its groups may see, not both")
    if toolset and not scopes <= _OF_ENDPOINT:
        raise InvalidSetting("a key of a toolset reaches its endpoint of MCP alone: its scopes are route and use")
    labels = (("name", name), *(("group", group) for group in groups), *([("toolset", toolset)] if toolset else []))
    for what, text in labels:
        if not is_plain(text):
            raise InvalidSetting(f"{text[:50]!r} is no {what}: 1 to {MAX_NAME_CHARS} printable characters are")


def is_plain(text: str) -> bool:
    """Whether a name or group is one line without blanks at its ends, and not too long."""
    return text.isprintable() and text == text.strip() and 0 < len(text) <= MAX_NAME_CHARS


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _signature(status: os.stat_result) -> Signature:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_keys(path: Path, content: bytes) -> Mapping[str, ApiKey]:
    """Id → key, in the file's order. Raises KeysUnusable, which says where but quotes nothing."""
    try:
        document = StoredKeys.model_validate_json(content)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False, include_context=False)[0]
        where = "/".join(map(str, first["loc"])) or "the document"
        reason = f"at {where}: {reason_of(first)}; restore it from a copy, or move it away and make new keys"
        raise KeysUnusable(path, reason) from None
    return {key.id: key for key in document.keys}
