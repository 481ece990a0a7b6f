"""Asks endpoints that speak OpenAI's protocol: addresses, keys, repeats, and errors that tell no secret."""

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import httpx2

from waygraph.registry.http.client import TooMuch, TooSlow, http_client, wait_s, whole_body
from waygraph.registry.language_model.messages import after_thoughts, begins_with_object, object_in
from waygraph.registry.model import errors
from waygraph.registry.model.identity import replace_surrogates
from waygraph.registry.model.settings import Settings

DEFAULT_BASE_URL = "https://api.openai.com/v1"
MAX_ANSWER_BYTES = 256 * 1024 * 1024
SECRET_CHARS = 8
"""So long a text among the fields of a setting may be a secret."""
TRANSIENT = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
"""A connection that broke, often an idle one. No connection at all, and no answer in time, are told at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What is asked for: the path, the word for it in messages, and the errors that come of it."""

    path: str
    doing: str
    unavailable: type[errors.WaygraphError]
    refused: type[errors.WaygraphError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an answer may take, to its last byte, and how often an overloaded endpoint is asked again.

    `sleep` takes seconds, `jitter` gives a number in [0, 1), `clock` seconds that only grow.
    """

    timeout_s: float
    retries: int
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where an endpoint is, the key to it (empty: none), and how long its answers may take."""

    base_url: str
    api_key: str = field(repr=False)
    patience: Patience

    @classmethod
    def of(cls, settings: Settings, environ: Mapping[str, str]) -> "Access":
        """The one that `OPENAI_BASE_URL` and `OPENAI_API_KEY` name."""
        return cls(
            base_url=environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL,
            api_key=environ.get("OPENAI_API_KEY", ""),
            patience=Patience(timeout_s=settings.openai_timeout_s, retries=settings.openai_retries),
        )


_OF_TRANSFER = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class OpenAIEndpoint:
    """One path of an endpoint, for one model. Safe across threads; `close` ends its connections. No error shows the key
    or one of the `secrets`.
    """

    def __init__(self, purpose: Purpose, access: Access, model: str, secrets: Iterable[str] = ()) -> None:
        self._purpose, self._patience, self._model = purpose, access.patience, model
        self._secrets = [form for secret in (access.api_key, *secrets) if secret for form in _spellings(secret)]
        self._url = self._address(access.base_url)
        self._left_out = frozenset[str]()
        if not access.api_key.isascii() or not access.api_key.isprintable():
            raise purpose.refused("OPENAI_API_KEY holds a line break or another character that no key has")
        headers = {"Authorization": f"Bearer {access.api_key}"} if access.api_key else {}
        self._client = http_client(httpx2.Client, headers=headers, timeout=access.patience.timeout_s)

    @property
    def host(self) -> str:
        """For messages: an address may hold a password."""
        return self._url.host

    def close(self) -> None:
        self._client.close()

    def post(
        self, body: Mapping[str, object], *, optional: Sequence[str] = (), ends_at: float = math.inf
    ) -> httpx2.Response:
        """The endpoint's good answer; asks again while it is overloaded.

        `optional`: fields that are left out, then and from then on, if the endpoint refuses them by name. `ends_at`:
        when all tries and pauses together end, see `ends_at`.
        Raises the purpose's `unavailable` if it does not answer in time or stays overloaded, `refused` if it refuses.
        """
        request = {name: value for name, value in body.items() if name not in self._left_out}
        response = self._patiently_posted(request, ends_at)
        refusals = [name for name in optional if name in request and name in response.text]
        if response.status_code == 400 and refusals:
            self._left_out |= {*refusals}
            return self.post(body, optional=optional, ends_at=ends_at)
        if response.status_code in {401, 403}:
            raise self.refusal(
                f"refuses the key ({response.status_code}); set OPENAI_API_KEY to one that may use {self._model}"
            )
        if not response.is_success:
            excerpt = self._redact(response.text)[:300]
            raise self.refusal(f"refuses to {self._purpose.doing} ({response.status_code}): {excerpt}")
        return response

    def _patiently_posted(self, body: Mapping[str, object], ends_at: float) -> httpx2.Response:
        """An answer that is no overload. Raises the purpose's `unavailable`."""
        patience = self._patience
        for attempt in range(patience.retries + 1):
            response = self._post_once(body, min(ends_at, self.ends_at()))
            if response is not None and response.status_code != 429 and response.status_code < 500:
                return response
            retry_after = response.headers.get("retry-after") if response is not None else None
            pause_s = wait_s(attempt, retry_after, patience.jitter)
            if attempt == patience.retries or patience.clock() + pause_s >= ends_at:
                break
            patience.sleep(pause_s)
        failure = f"answers {response.status_code}" if response is not None else "breaks the connection"
        raise self._purpose.unavailable(
            f"{self.host} still {failure} after {attempt + 1} {'tries' if attempt else 'try'}"
        )

    def ends_at(self) -> float:
        """When an answer is due that somebody waits for: all that it takes is then done, and no try alone."""
        return self._patience.clock() + self._patience.timeout_s

    def refusal(self, what: str) -> errors.WaygraphError:
        """The error for an answer that is not what was asked for."""
        return self._purpose.refused(f"{self.host} {self._redact(what)}")

    def _post_once(self, body: Mapping[str, object], ends_at: float) -> httpx2.Response | None:
        """None if the connection broke."""
        unavailable = self._purpose.unavailable
        try:
            with self._client.stream("POST", self._url, json=body) as response:
                return self._whole(response, ends_at)
        except TRANSIENT:
            return None
        except (httpx2.TimeoutException, TooSlow) as exc:
            raise unavailable(f"{self.host} did not answer within {self._patience.timeout_s:g} s") from exc
        except (httpx2.TransportError, httpx2.InvalidURL) as exc:
            raise unavailable(f"{self.host} cannot be reached: {self._redact(str(exc))}") from exc
        except httpx2.HTTPError as exc:
            raise self.refusal(f"answered something that cannot be read: {exc}") from exc
        except RuntimeError as exc:
            if not self._client.is_closed:
                raise
            raise unavailable(f"{self.host} is asked nothing more: its connections were closed") from exc

    def _whole(self, response: httpx2.Response, ends_at: float) -> httpx2.Response:
        """With all that it holds. Raises TooSlow."""
        clock = self._patience.clock
        try:
            content = whole_body(response.iter_bytes(), most_bytes=MAX_ANSWER_BYTES, ends_at=ends_at, clock=clock)
        except TooMuch:
            raise self.refusal(f"answered more than {MAX_ANSWER_BYTES:,} bytes") from None
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_TRANSFER]
        return httpx2.Response(response.status_code, headers=headers, content=content)

    def _redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text

    def _address(self, base_url: str) -> httpx2.URL:
        error = self._purpose.refused
        try:
            url = httpx2.URL(f"{base_url.rstrip('/')}/{self._purpose.path}")
        except httpx2.InvalidURL:  # its message may quote a password
            raise error("OPENAI_BASE_URL is not an address") from None
        if url.scheme not in {"http", "https"} or not url.host:
            raise error("OPENAI_BASE_URL must be an address such as http://localhost:8000/v1")
        return url


def _spellings(secret: str) -> Sequence[str]:
    """As it stands in a text, and in JSON that an endpoint answers; the longest first."""
    forms = {secret, *(json.dumps(secret, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))}
    return sorted({*forms, *(form.replace("/", "\\/") for form in forms)}, key=len, reverse=True)


CHAT = Purpose(
    path="chat/completions",
    doing="answer",
    unavailable=errors.LanguageModelUnavailable,
    refused=errors.LanguageModelRefused,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The message of the first choice, as the protocol has it, and the tokens that it cost: 0 if they are not counted.

    The message is untrusted: any object that JSON carries. Its text is without the thoughts before it. `is_cut`: it was
    as long as it may be.
    """

    message: Mapping[str, Any]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_cut: bool = False

    @property
    def text(self) -> str:
        text = self.message.get("content")
        return text if isinstance(text, str) else ""


class ChatModel:
    """Answers one prompt at a time, as surely the same way as the endpoint can (temperature 0).

    Without a temperature where the model refuses one, as those that reason do. `fields`: of each request, beside or in
    place of those that are asked for; null leaves one out.
    """

    def __init__(self, model: str, access: Access, fields: Mapping[str, Any] | None = None) -> None:
        self.model, self._fields, self._needs_room = model, fields or {}, False
        secrets = [text for text in _texts_in(self._fields) if len(text) >= SECRET_CHARS]
        self._endpoint = OpenAIEndpoint(CHAT, access, model, secrets)

    @classmethod
    def open(cls, model: str, settings: Settings, environ: Mapping[str, str]) -> "ChatModel":
        """At the endpoint that the environment names; touches no network."""
        return cls(model, Access.of(settings, environ), settings.openai_fields)

    def key(self, *prompt: str) -> str:
        """By which an answer is kept: of the model, the fields of each request, and the parts of a prompt."""
        fields = [json.dumps(self._fields, sort_keys=True)] if self._fields else []
        return sha256(replace_surrogates("\0".join((self.model, *prompt, *fields))).encode()).hexdigest()

    def answer(self, system: str, user: str, *, in_haste: bool = False) -> str:
        """The text of the first choice, without thoughts. `in_haste`: somebody waits for it, and all tries together
        take no longer than one answer may.

        Raises LanguageModelUnavailable (retryable) if the endpoint does not answer in time or stays overloaded,
        LanguageModelRefused if it refuses or speaks another protocol, UnfitAnswer if it answers no text.
        """
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        if not (text := self.complete(messages, in_haste=in_haste).text).strip():
            raise errors.UnfitAnswer(f"{self._endpoint.host} answered without a text")
        return text

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        max_tokens: int = 0,
        temperature: float = 0,
        in_haste: bool = False,
    ) -> Completion:
        """What comes next in a conversation. `tools`: functions that the model may call, as OpenAI lists them.

        `max_tokens`: of an answer that is a JSON object; 0: as many as the endpoint gives. A model that thinks first
        may spend them on its thoughts: an answer that is cut off is asked for once more without the limit, and where
        that helps, so is each one after it. Both numbers are left out where the model refuses them. Raises
        LanguageModelUnavailable, LanguageModelRefused as `answer`.
        """
        ends_at = self._endpoint.ends_at() if in_haste else math.inf
        body = {"model": self.model, "messages": messages, "temperature": temperature}
        body |= {"tools": tools} if tools else {}
        if not max_tokens or self._needs_room or "max_tokens" in self._fields:
            return self._complete(body, ends_at)
        first = self._complete(body | {"max_tokens": max_tokens}, ends_at)
        if not first.is_cut or begins_with_object(first.text):
            return first
        second = self._complete(body, ends_at)
        self._needs_room = not second.is_cut and bool(object_in(second.text))
        return replace(
            second,
            prompt_tokens=first.prompt_tokens + second.prompt_tokens,
            completion_tokens=first.completion_tokens + second.completion_tokens,
        )

    def _complete(self, body: Mapping[str, Any], ends_at: float) -> Completion:
        body = {name: value for name, value in {**body, **self._fields}.items() if value is not None}
        response = self._endpoint.post(body, optional=("temperature", "max_tokens"), ends_at=ends_at)
        try:
            document = response.json()
            choice = document["choices"][0]
            message = json.loads(replace_surrogates(json.dumps(choice["message"], ensure_ascii=False)))
        except (ValueError, TypeError, LookupError, RecursionError) as exc:
            raise self._endpoint.refusal("answered something that is no chat completion") from exc
        if not isinstance(message, dict):
            raise self._endpoint.refusal("answered something that is no chat completion")
        if isinstance(message.get("content"), str):
            message["content"] = after_thoughts(message["content"])
        usage = document.get("usage")
        return Completion(
            message=message,
            prompt_tokens=_count(usage, "prompt_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
            is_cut=choice.get("finish_reason") == "length",
        )

    def close(self) -> None:
        self._endpoint.close()


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(each)


def _count(usage: object, name: str) -> int:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if type(value) is int and value >= 0 else 0


ENDPOINT = ("OPENAI_BASE_URL", "OPENAI_API_KEY")


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether an endpoint is named, or a key for OpenAI's own."""
    return any(environ.get(name) for name in ENDPOINT)


def model_in(spec: str) -> str:
    """The model of `openai:MODEL`; empty for any other spec."""
    scheme, _, model = spec.partition(":")
    return model if scheme == "openai" else ""


def configured_model(spec: str, environ: Mapping[str, str], *, option: str, purpose: str, instead: str = "") -> str:
    """The model of `openai:MODEL`. `option`, `purpose` and what one may do `instead` are words of the errors.

    Raises InvalidSetting for any other spec, and where no endpoint is configured.
    """
    if not (model := model_in(spec)):
        raise errors.InvalidSetting(f"{option} {spec!r}: expected openai:MODEL")
    if not is_configured(environ):
        reason = f"no language model is configured {purpose}: set {' or '.join(ENDPOINT)}"
        raise errors.InvalidSetting(f"{reason}, or {instead}" if instead else reason)
    return model
