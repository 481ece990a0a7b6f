"""What a language model answered, kept in a file beside what is made of it: a run that was killed asks nothing twice.

What goes in is data, and what comes out is untrusted: whoever asks checks it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from waygraph.registry.language_model.endpoint import ChatModel, Completion
from waygraph.registry.model.errors import InvalidDataset, LanguageModelRefused
from waygraph.registry.model.identity import replace_surrogates

MOST_REFUSALS = 5
"""In a row, without an answer between them: then the endpoint itself refuses, and not one request."""
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


@dataclass(slots=True, kw_only=True)
class Usage:
    """What a run cost. `calls` answered now, `kept` answered by an earlier run, `refused` by the endpoint.

    Tokens are of both, as the endpoint counts them.
    """

    calls: int = 0
    kept: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ModelAnswers:
    """A model and its former answers. Threads may share it."""

    def __init__(self, model: ChatModel, file: Path) -> None:
        self.usage = Usage()
        self._model, self._file, self._lock = model, file, Lock()
        self.refusal: LanguageModelRefused | None = None
        """The endpoint's last word, if that was a refusal."""
        self._refusals, self._used = 0, set[str]()

    @property
    def model(self) -> str:
        return self._model.model

    @cached_property
    def _former(self) -> dict[str, Mapping[str, Any]]:
        """By key. Read when somebody asks: by then the folder is known for ours."""
        return _read(self._file)

    def ask(
        self, system: str, facts: Mapping[str, Any], *, max_tokens: int = 0, temperature: float = 0
    ) -> dict[str, Any]:
        """The JSON object in the answer; empty if there is none: invalid, cut off, or a refusal in words.

        `max_tokens`, `temperature`: as `ChatModel.complete`. Raises LanguageModelUnavailable; LanguageModelRefused
        after `MOST_REFUSALS` in a row.
        """
        prompt = replace_surrogates(json.dumps(facts, ensure_ascii=False))
        key = sha256("\0".join((self._model.model, system, prompt)).encode()).hexdigest()
        with self._lock:
            if line := self._former.get(key):
                self._count(line, is_new=False)
        line = line or self._ask_model(key, system, prompt, max_tokens, temperature)
        return object_in(line["text"]) if line else {}

    def _count(self, line: Mapping[str, Any], *, is_new: bool) -> None:
        """Each answer once, however often it is used."""
        if line["key"] in self._used:
            return
        self._used.add(line["key"])
        self.usage.calls += is_new
        self.usage.kept += not is_new
        self.usage.prompt_tokens += line["prompt_tokens"]
        self.usage.completion_tokens += line["completion_tokens"]

    def _ask_model(self, key: str, system: str, prompt: str, max_tokens: int, temperature: float) -> Mapping[str, Any]:
        """The line that is kept of the answer; empty if the endpoint refuses."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        try:
            completion = self._model.complete(messages, max_tokens=max_tokens, temperature=temperature)
        except LanguageModelRefused as error:
            with self._lock:
                self.refusal = error
                self.usage.refused += 1
                self._refusals += 1
                if self._refusals >= MOST_REFUSALS:
                    raise
            return {}
        return self._keep(key, completion)

    def _keep(self, key: str, completion: Completion) -> Mapping[str, Any]:
        text = completion.message.get("content")
        line = {
            "key": key,
            "text": text if isinstance(text, str) else "",
            "prompt_tokens": completion.prompt_tokens,
            "completion_tokens": completion.completion_tokens,
        }
        with self._lock:
            self._refusals, self.refusal = 0, None
            self._count(line, is_new=True)
            self._former[key] = line
            with self._file.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        return line

    def close(self) -> None:
        self._model.close()


def _read(file: Path) -> dict[str, Mapping[str, Any]]:
    """By key; a last line that a kill cut short is dropped from the file. Raises InvalidDataset."""
    if not file.is_file():
        return {}
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        file.write_bytes(whole)
    try:
        return {line["key"]: line for line in map(json.loads, whole.decode("utf-8").split("\n")[:-1])}
    except (ValueError, LookupError, TypeError) as error:
        raise InvalidDataset(str(file), f"holds no answers of a model: {error!r}; remove it to ask anew") from error


def object_in(answer: str) -> dict[str, Any]:
    """The first JSON object of an answer, whatever thoughts, fences or words are around it; empty if none is whole."""
    text = _THINKING.sub("", answer)
    start = text.find("{")
    try:
        document, _ = json.JSONDecoder().raw_decode(text[start:]) if start >= 0 else ({}, 0)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
