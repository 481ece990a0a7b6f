"""A language model behind an OpenAI-compatible `POST /chat/completions`. What it answers is untrusted text."""

import json
from collections.abc import Mapping

from waygraph.registry.errors import LanguageModelRefused, LanguageModelUnavailable, UnfitAnswer
from waygraph.registry.identity import mended
from waygraph.registry.openai_endpoint import DEFAULT_BASE_URL, OpenAIEndpoint, Patience, Purpose
from waygraph.registry.settings import Settings

CHAT = Purpose(
    path="chat/completions", doing="answer", unavailable=LanguageModelUnavailable, refused=LanguageModelRefused
)


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

    def answer(self, system: str, user: str, *, hurried: bool = False) -> str:
        """The text of the first choice. `hurried`: somebody waits for it, see `OpenAIEndpoint.post`.

        Raises LanguageModelUnavailable (retryable) if the endpoint does not answer in time or stays overloaded,
        LanguageModelRefused if it refuses or speaks another protocol, UnfitAnswer if it answers no text.
        """
        told = {"system": system, "user": user}
        messages = [{"role": role, "content": mended(text)} for role, text in told.items()]
        body = {"model": self.model, "messages": messages, "temperature": 0}
        response = self._endpoint.post(body, optional="temperature", hurried=hurried)
        try:
            text = response.json()["choices"][0]["message"]["content"]
        except (ValueError, TypeError, LookupError, RecursionError) as exc:
            raise self._endpoint.refusal("answered something that is no chat completion") from exc
        if not isinstance(text, str) or not text.strip():
            raise UnfitAnswer(f"{self._endpoint.host} answered without a text")
        return text

    def close(self) -> None:
        self._endpoint.close()


def list_in(answer: str, key: str) -> list[object]:
    """What stands under the only key of a JSON object; empty if the answer is anything else than `{key: [...]}`."""
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        return []
    told = document.get(key) if isinstance(document, dict) and document.keys() == {key} else None
    return told if isinstance(told, list) else []
