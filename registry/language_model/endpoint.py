"""Asks endpoints that speak OpenAI's protocol: addresses, keys, repeats, and errors that tell no secret."""

import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from waygraph.registry.http.client import TooMuch, TooSlow, http_client, wait_s, whole_body
from waygraph.registry.model.errors import (
    InvalidSetting,
    LanguageModelRefused,
    LanguageModelUnavailable,
    UnfitAnswer,
    WaygraphError,
)
from waygraph.registry.model.identity import replace_surrogates
from waygraph.registry.model.settings import Settings

DEFAULT_BASE_URL = "https://api.openai.com/v1"
MAX_ANSWER_BYTES = 256 * 1024 * 1024
TRANSIENT = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
"""A connection that broke, often an idle one. No connection at all, and no answer in time, are told at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What is asked for: the path, the word for it in messages, and the errors that come of it."""

    path: str
    doing: str
    unavailable: type[WaygraphError]
    refused: type[WaygraphError]


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


_OF_TRANSFER = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class OpenAIEndpoint:
    """One path of an endpoint, for one model. Safe across threads; `close` ends its connections."""

    def __init__(self, purpose: Purpose, patience: Patience, *, base_url: str, api_key: str, model: str) -> None:
        self._purpose, self._patience = purpose, patience
        self._api_key, self._model = api_key, model
        self._url = self._address(base_url)
        self._left_out = frozenset[str]()
        self._client = http_client(httpx2.Client, headers=self._authorization(), timeout=patience.timeout_s)

    @property
    def host(self) -> str:
        """For messages: an address may hold a password."""
        return self._url.host

    def close(self) -> None:
        self._client.close()

    def post(
        self, body: Mapping[str, object], *, optional: Sequence[str] = (), in_haste: bool = False
    ) -> httpx2.Response:
        """The endpoint's good answer; asks again while it is overloaded.

        `optional`: fields that are left out, then and from then on, if the endpoint refuses them by name. `in_haste`:
        somebody waits for it, so that all tries and pauses together take no longer than one answer may.
        Raises the purpose's `unavailable` if it does not answer in time or stays overloaded, `refused` if it refuses.
        """
        request = {name: value for name, value in body.items() if name not in self._left_out}
        response = self._patiently_posted(request, self._ends_at() if in_haste else math.inf)
        refusals = [name for name in optional if name in request and name in response.text]
        if response.status_code == 400 and refusals:
            self._left_out |= {*refusals}
            return self.post(body, optional=optional, in_haste=in_haste)
        return self._accept(response)

    def _patiently_posted(self, body: Mapping[str, object], ends_at: float) -> httpx2.Response:
        """An answer that is no overload. Raises the purpose's `unavailable`."""
        patience = self._patience
        for attempt in range(patience.retries + 1):
            response = self._post_once(body, min(ends_at, self._ends_at()))
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

    def _ends_at(self) -> float:
        return self._patience.clock() + self._patience.timeout_s

    def refusal(self, what: str) -> WaygraphError:
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

    def _accept(self, response: httpx2.Response) -> httpx2.Response:
        if response.status_code in {401, 403}:
            raise self.refusal(
                f"refuses the key ({response.status_code}); set OPENAI_API_KEY to one that may use {self._model}"
            )
        if not response.is_success:
            excerpt = self._redact(response.text)[:300]
            raise self.refusal(f"refuses to {self._purpose.doing} ({response.status_code}): {excerpt}")
        return response

    def _redact(self, text: str) -> str:
        return text.replace(self._api_key, "…") if self._api_key else text

    def _authorization(self) -> dict[str, str]:
        if not self._api_key.isascii() or not self._api_key.isprintable():
            raise self._purpose.refused("OPENAI_API_KEY holds a line break or another character that no key has")
        return {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}

    def _address(self, base_url: str) -> httpx2.URL:
        error = self._purpose.refused
        try:
            url = httpx2.URL(f"{base_url.rstrip('/')}/{self._purpose.path}")
        except httpx2.InvalidURL:  # its message may quote a password
            raise error("OPENAI_BASE_URL is not an address") from None
        if url.scheme not in {"http", "https"} or not url.host:
            raise error("OPENAI_BASE_URL must be an address such as http://localhost:8000/v1")
        return url


CHAT = Purpose(
    path="chat/completions", doing="answer", unavailable=LanguageModelUnavailable, refused=LanguageModelRefused
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The message of the first choice, as the protocol has it, and the tokens that it cost: 0 if they are not counted.

    The message is untrusted: any object that JSON carries.
    """

    message: Mapping[str, Any]
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ChatModel:
    """Answers one prompt at a time, as surely the same way as the endpoint can (temperature 0).

    Without a temperature where the model refuses one, as those that reason do.
    """

    def __init__(self, *, base_url: str, api_key: str, model: str, patience: Patience) -> None:
        self.model = model
        self._endpoint = OpenAIEndpoint(CHAT, patience, base_url=base_url, api_key=api_key, model=model)

    @classmethod
    def open(cls, model: str, settings: Settings, environ: Mapping[str, str]) -> "ChatModel":
        """The endpoint that `OPENAI_BASE_URL` and `OPENAI_API_KEY` name; touches no network."""
        return cls(
            base_url=environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL,
            api_key=environ.get("OPENAI_API_KEY", ""),
            model=model,
            patience=Patience(timeout_s=settings.openai_timeout_s, retries=settings.openai_retries),
        )

    def answer(self, system: str, user: str, *, in_haste: bool = False) -> str:
        """The text of the first choice. `in_haste`: somebody waits for it, see `OpenAIEndpoint.post`.

        Raises LanguageModelUnavailable (retryable) if the endpoint does not answer in time or stays overloaded,
        LanguageModelRefused if it refuses or speaks another protocol, UnfitAnswer if it answers no text.
        """
        texts = {"system": system, "user": user}
        messages = [{"role": role, "content": text} for role, text in texts.items()]
        text = self.complete(messages, in_haste=in_haste).message.get("content")
        if not isinstance(text, str) or not text.strip():
            raise UnfitAnswer(f"{self._endpoint.host} answered without a text")
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

        `max_tokens`: of the answer; 0: as many as the endpoint gives. Both numbers are left out where the model refuses
        them. Raises LanguageModelUnavailable, LanguageModelRefused as `answer`.
        """
        body = {"model": self.model, "messages": messages, "temperature": temperature}
        body |= ({"tools": tools} if tools else {}) | ({"max_tokens": max_tokens} if max_tokens else {})
        response = self._endpoint.post(body, optional=("temperature", "max_tokens"), in_haste=in_haste)
        try:
            document = response.json()
            message = json.loads(replace_surrogates(json.dumps(document["choices"][0]["message"], ensure_ascii=False)))
        except (ValueError, TypeError, LookupError, RecursionError) as exc:
            raise self._endpoint.refusal("answered something that is no chat completion") from exc
        if not isinstance(message, Mapping):
            raise self._endpoint.refusal("answered something that is no chat completion")
        usage = document.get("usage")
        return Completion(
            message=message,
            prompt_tokens=_count(usage, "prompt_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
        )

    def close(self) -> None:
        self._endpoint.close()


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
        raise InvalidSetting(f"{option} {spec!r}: expected openai:MODEL")
    if not is_configured(environ):
        reason = f"no language model is configured {purpose}: set {' or '.join(ENDPOINT)}"
        raise InvalidSetting(f"{reason}, or {instead}" if instead else reason)
    return model


def list_in(answer: str, key: str) -> list[object]:
    """What stands under the only key of a JSON object; empty if the answer is anything else than `{key: [...]}`."""
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        return []
    entries = document.get(key) if isinstance(document, dict) and document.keys() == {key} else None
    return entries if isinstance(entries, list) else []
