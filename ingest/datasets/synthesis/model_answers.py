"""What a language model answered, kept in a file beside what is made of it: a run that was killed asks nothing twice.

What goes in is data, and what comes out is untrusted: whoever asks checks it.
"""

import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

from waygraph.registry.embedding.embedder import Progress
from waygraph.registry.http.openai_endpoint import ChatModel, Completion, model_in
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting, LanguageModelRefused
from waygraph.registry.model.identity import replace_surrogates

ANSWERS = "answers.jsonl"
RULES = "rules"
MOST_REFUSALS = 5
"""In a row, without an answer between them: then the endpoint itself refuses, and not one request."""
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


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
        self._refusals = 0

    @cached_property
    def _former(self) -> dict[str, Mapping[str, Any]]:
        """By key. Read when somebody asks: by then the folder is known for ours."""
        return _read(self._file)

    def ask(self, system: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object in the answer; empty if there is none: invalid, cut off, or a refusal in words.

        Raises LanguageModelUnavailable; LanguageModelRefused after `MOST_REFUSALS` in a row.
        """
        prompt = replace_surrogates(json.dumps(told, ensure_ascii=False))
        key = sha256("\0".join((self._model.model, system, prompt)).encode()).hexdigest()
        with self._lock:
            line = self._former.get(key)
        line = line or self._ask_model(key, system, prompt)
        return object_in(line["text"]) if line else {}

    def _ask_model(self, key: str, system: str, prompt: str) -> Mapping[str, Any]:
        """The line that is kept of the answer; empty if the endpoint refuses."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        try:
            completion = self._model.complete(messages)
        except LanguageModelRefused:
            with self._lock:
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
            self._refusals = 0
            self.usage.calls += 1
            self._former[key] = line
            with self._file.open("a", encoding="utf-8", newline="\n") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        return line

    def close(self) -> None:
        self._model.close()

    def total(self) -> Usage:
        """Of this run and those before it, in the same file."""
        lines = list(self._former.values())
        return Usage(
            calls=self.usage.calls,
            kept=len(lines) - self.usage.calls,
            refused=self.usage.refused,
            prompt_tokens=sum(line["prompt_tokens"] for line in lines),
            completion_tokens=sum(line["completion_tokens"] for line in lines),
        )


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
    text = _THOUGHT.sub("", answer)
    start = text.find("{")
    try:
        found, _ = json.JSONDecoder().raw_decode(text[start:]) if start >= 0 else ({}, 0)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# What is asked for, and how it is made.


TRIES_EACH = 4
"""A run ends after so many tries for each record wanted, however few were fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """`count` records by an author (`rules` or `openai:MODEL`), `at_once` at a time, which is part of what the seed
    stands for. `answers`: of the author, if it is a model.
    """

    by: str
    count: int
    seed: int = 1
    at_once: int = 4
    answers: ModelAnswers | None = None
    progress: Progress | None = None

    @property
    def mark(self) -> Mapping[str, Any]:
        """What the folder says of its making."""
        return {"by": self.by, "count": self.count, "seed": self.seed, "at_once": self.at_once}

    def usage(self) -> Usage:
        return self.answers.total() if self.answers else Usage()

    def chance(self, number: int) -> Random:
        """Of one try."""
        return Random(f"{self.seed} {number}")  # noqa: S311 - not a secret

    def fill[C, M](self, choose: Callable[[int], C], make: Callable[[C], M], take: Callable[[M], bool]) -> int:
        """How many tries it took. Each is chosen by its number, made beside others, and taken, or not, in order."""
        made = tries = 0
        with ThreadPoolExecutor(self.at_once) as pool:
            while made < self.count and tries < TRIES_EACH * self.count:
                numbers = range(tries, tries + min(self.at_once, self.count - made))
                tries += len(numbers)
                made += sum(map(take, pool.map(make, [choose(number) for number in numbers])))
                if self.progress:
                    self.progress(made, self.count)
        return tries


def model_of(by: str) -> str:
    """The name of the model of `openai:MODEL`; empty for `rules`. Raises InvalidSetting."""
    if by == RULES:
        return ""
    if model := model_in(by):
        return model
    raise InvalidSetting(f"made by {by!r}: expected {RULES} or openai:MODEL")
