"""Killed writers and flipped bits: what is lost, half there, or answered otherwise without a word."""

import os
import random
import shutil
import time
from collections import Counter
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.engines.children import CONTEXT, Ended, in_child
from benchmarks.engines.contenders import CONTENDERS, FILE
from benchmarks.engines.contents import Contents, change, contents, fill

KILLED_WITHIN_S = 0.15
SECURED_EVERY, CHECKPOINT_EVERY = 7, 25
LOGGED_CHANGES = 20
SEED = 1
NOT_DATA = (".lock", ".lock-owner")


class Damage(StrEnum):
    OF_FILE = "the file"
    """That was closed."""
    OF_LOG = "the log"
    """That a killed process left."""


def kill_writers(name: str, folder: Path, kills: int, tools: int) -> Counter[str]:
    """Kills a writing process so many times at a random moment between its start and some commits, opening included.

    Counts `lost` (less than was acknowledged), `half`, `unreadable` and `whole`.
    """
    chance, found = random.Random(SEED), Counter[str]()  # noqa: S311 - not a secret
    in_child(filled, name, folder, tools)
    acknowledged = 0
    for _ in range(kills):
        acknowledged = _kill_one(name, folder, acknowledged, chance.uniform(0.0, KILLED_WITHIN_S))
        seen = in_child(read_all, name, folder)
        found[judge_kill(seen, acknowledged)] += 1
        if seen.how != "answered":
            return found
        acknowledged = seen.value.revision
    return found


def flip_bits(name: str, folder: Path, flips: int, tools: int, damage: Damage) -> Counter[str]:
    """Flips a bit so many times, each in a fresh copy, and reads everything.

    Counts `refused`, `refused once, then …`, `harmless`, `told by content hashes`, `silent: …`, and processes that
    `died`.
    """
    chance, found = random.Random(SEED), Counter[str]()  # noqa: S311 - not a secret
    whole = folder / "whole"
    whole.mkdir(parents=True)
    in_child(filled, name, whole, tools)
    in_child(changed_and_left if damage is Damage.OF_LOG else changed_and_closed, name, whole)
    undamaged = in_child(read_all, name, _copy(whole, folder / "right"))
    assert undamaged.how == "answered", undamaged
    right = undamaged.value
    files = [path for path in _data_of(whole) if (path.name != FILE) == (damage is Damage.OF_LOG)]
    for _ in range(flips):
        damaged = _copy(whole, folder / "damaged")
        _flip(damaged / chance.choice(files).relative_to(whole), chance)
        found[_judge_twice(name, damaged, right)] += 1
    return found


def _judge_twice(name: str, damaged: Path, right: Contents) -> str:
    """What the first to read finds; where that one is refused, the next one too."""
    end = judge_flip(in_child(read_all, name, damaged), right)
    if end != "refused":
        return end
    again = judge_flip(in_child(read_all, name, damaged), right)
    return end if again == end else f"refused once, then {again}"


def _kill_one(name: str, folder: Path, acknowledged: int, after_s: float) -> int:
    """The last change that the killed process acknowledged."""
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=write_on, args=(theirs, name, folder), daemon=True)
    process.start()
    theirs.close()
    ours.recv()
    time.sleep(after_s)
    process.kill()
    process.join()
    try:
        while True:
            acknowledged = ours.recv()
    except EOFError:
        ours.close()
        return acknowledged


def judge_kill(seen: Ended, acknowledged: int) -> str:
    if seen.how != "answered":
        return f"unreadable: {seen.how} {seen.value}"
    if seen.value.revision < acknowledged:
        return "lost"
    return "whole" if _is_whole(seen.value) else "half"


def _is_whole(seen: Contents) -> bool:
    return seen.sound and seen.numbers == (frozenset({seen.revision}) if seen.revision else frozenset())


def judge_flip(seen: Ended, right: Contents) -> str:
    if seen.how != "answered":
        return f"{seen.how}: {seen.value}" if seen.how == "raised" else seen.how
    if seen.value == right:
        return "harmless"
    if not seen.value.sound:
        return "told by content hashes"
    if seen.value.revision < right.revision:
        return "silent: commits gone" if _is_whole(seen.value) else "silent: half"
    return "silent: vectors" if seen.value.texts == right.texts else "silent: texts"


def _flip(path: Path, chance: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)


def _copy(whole: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(whole, to)
    return to


def _data_of(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in paths if path.stat().st_size and path.suffix not in NOT_DATA]


# -- what the processes do --------------------------------------------------------------------------


def filled(name: str, folder: Path, tools: int) -> None:
    engine = CONTENDERS[name].open(folder / FILE)
    fill(engine, tools)
    engine.close()


def write_on(pipe: Connection, name: str, folder: Path) -> None:
    """Says that it begins, then one change after the other, each acknowledged by its number, until it is killed."""
    pipe.send("begins")
    contender = CONTENDERS[name]
    engine = contender.open(folder / FILE)
    number = contents(engine).revision
    while True:
        number += 1
        change(engine, number)
        pipe.send(number)
        if number % SECURED_EVERY == 0:
            contender.secure(engine, folder / FILE)
        if number % CHECKPOINT_EVERY == 0:
            engine.checkpoint()


def changed_and_closed(name: str, folder: Path) -> None:
    engine = CONTENDERS[name].open(folder / FILE)
    change(engine, 1)
    engine.close()


def changed_and_left(name: str, folder: Path) -> None:
    """As a killed process leaves it: the last changes are in the log alone."""
    engine = CONTENDERS[name].open(folder / FILE)
    for number in range(1, LOGGED_CHANGES + 1):
        change(engine, number)
    CONTENDERS[name].secure(engine, folder / FILE)
    os._exit(0)


def read_all(name: str, folder: Path) -> Contents:
    engine = CONTENDERS[name].open(folder / FILE)
    return contents(engine)
