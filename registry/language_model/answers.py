"""What a language model answered, kept in a file beside what is made of it: a run that was killed asks nothing twice.

What goes in is data, and what comes out is untrusted: whoever asks judges it, and only what is fit is kept.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from waygraph.registry.language_model.endpoint import ChatModel, Completion
from waygraph.registry.language_model.messages import object_in
from waygraph.registry.model.errors import InvalidDataset, LanguageModelRefused
from waygraph.registry.model.identity import replace_surrogates

MOST_REFUSALS = 5
"""In a row, without an answer between them: then the endpoint itself refuses, and not one request."""


@dataclass(slots=True, kw_only=True)
class Usage:
    """What a run cost. `calls` answered now, fit or not, `kept` answered by an earlier run, `refused` by the endpoint.

    Tokens are of both, as the endpoint counts them.
    """

    calls: int = 0
    kept: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ModelAnswers:
    """A model and its former fit answers. Threads may share it."""

    def __init__(self, model: ChatModel, file: Path) -> None:
        self.usage, self.file = Usage(), file
        self._model, self._lock = model, Lock()
        self.refusal: LanguageModelRefused | None = None
        """The endpoint's last word, if that was a refusal."""
        self._refusals, self._used = 0, set[str]()

    @property
    def model(self) -> str:
        return self._model.model

    @cached_property
    def _former(self) -> dict[str, Mapping[str, Any]]:
        """By key. Read when somebody asks: by then the folder is known for ours."""
        return _read(self.file)

    def ask(
        self,
        system: str,
        facts: Mapping[str, Any],
        *,
        is_fit: Callable[[dict[str, Any]], bool],
        max_tokens: int = 0,
        temperature: float = 0,
    ) -> dict[str, Any]:
        """The JSON object in the answer; empty if there is none: invalid, cut off, or a refusal in words.

        What is not fit is not kept, and where an earlier run kept it, the model is asked anew. `max_tokens`,
        `temperature`: as `ChatModel.complete`. Raises LanguageModelUnavailable; LanguageModelRefused after
        `MOST_REFUSALS` in a row.
        """
        prompt = replace_surrogates(json.dumps(facts, ensure_ascii=False))
        key = self._model.key(system, prompt, *([f"temperature {temperature:g}"] if temperature else []))
        with self._lock:
            line = self._former.get(key)
        if line and is_fit(former := object_in(line["text"])):
            self._count_kept(line)
            return former
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        if not (completion := self._complete(messages, max_tokens, temperature)):
            return {}
        if is_fit(answer := object_in(completion.text)):
            self._keep(key, completion)
        return answer

    def advice(self) -> str:
        """For an error that former answers may be the cause of."""
        return f"former answers of the model are kept in {self.file}: remove it to ask anew"

    def _count_kept(self, line: Mapping[str, Any]) -> None:
        """Each answer of an earlier run once, however often it is used."""
        with self._lock:
            if line["key"] not in self._used:
                self._used.add(line["key"])
                self.usage.kept += 1
                self.usage.prompt_tokens += line["prompt_tokens"]
                self.usage.completion_tokens += line["completion_tokens"]

    def _complete(
        self, messages: Sequence[Mapping[str, Any]], max_tokens: int, temperature: float
    ) -> Completion | None:
        """None if the endpoint refuses."""
        try:
            completion = self._model.complete(messages, max_tokens=max_tokens, temperature=temperature)
        except LanguageModelRefused as error:
            with self._lock:
                self.refusal = error
                self.usage.refused += 1
                self._refusals += 1
                if self._refusals >= MOST_REFUSALS:
                    raise
            return None
        with self._lock:
            self._refusals, self.refusal = 0, None
            self.usage.calls += 1
            self.usage.prompt_tokens += completion.prompt_tokens
            self.usage.completion_tokens += completion.completion_tokens
        return completion

    def _keep(self, key: str, completion: Completion) -> None:
        tokens = {"prompt_tokens": completion.prompt_tokens, "completion_tokens": completion.completion_tokens}
        line = {"key": key, "text": completion.text, **tokens}
        with self._lock:
            self._used.add(key)
            self._former[key] = line
            with self.file.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

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
