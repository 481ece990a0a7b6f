"""`taxonomy`: trees of categories over agents or tools."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from waygraph.api.cli.options import Invocation, Texts, principal
from waygraph.api.cli.render import views
from waygraph.api.cli.render.output import Aside, Block, Fields, Table, note, print_raw
from waygraph.registry.model.errors import InvalidSetting, UnknownName
from waygraph.registry.model.nouns import Of, name_undescribed
from waygraph.registry.taxonomy.tree import By, CategoryView, Drift, Taxonomy, TaxonomySettings

if TYPE_CHECKING:
    from waygraph.registry.language_model.answers import ModelAnswers
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.storage.local_registry import LocalRegistry
    from waygraph.registry.taxonomy.prompts import Service
    from waygraph.registry.taxonomy.taxonomies import Structure
    from waygraph.registry.taxonomy.vectors_build import Builder

taxonomy = typer.Typer(no_args_is_help=True, help="Build and look at trees of categories.")

NOTED_EVERY = 100
"""Calls of a build by a model, within one category."""
Name = Annotated[str, Option("--name", metavar="NAME", help="Which taxonomy. Default: the current one.")]


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Sizes of a tree, as `TaxonomySettings` has them."""

    leaf_size: Annotated[int, Option(min=1, help="A category of more is split.")] = 40
    max_depth: Annotated[int, Option(min=1, max=32, help="Of the tree, below its root.")] = 3
    max_categories: Annotated[int, Option(min=2, help="Children of a category.")] = 20
    cross_domain: Annotated[
        bool, Option("--cross-domain/--one-parent", help="Whether something may stand under two top categories.")
    ] = True


_OF_HELP = "What is sorted. Default: agents, or tools if all agents fit into one leaf and the tools do not."
_BY_HELP = "Without a language model. Default: vectors, or words if nothing has a vector."


@taxonomy.command()
def build(
    options: Invocation,
    *,
    name: Annotated[str, Option(metavar="NAME", help="A taxonomy of this name is replaced.")] = "main",
    of: Annotated[Literal["agents", "tools"] | None, Option(help=_OF_HELP)] = None,
    by: Annotated[Literal["vectors", "words"] | None, Option(help=_BY_HELP)] = None,
    model: Annotated[str, Option(metavar="openai:MODEL", help="A language model of OPENAI_BASE_URL designs it.")] = "",
    private: Annotated[
        bool, Option(help="Read restricted agents too; who does not see them all sees no tree.")
    ] = False,
    show_to_all: Annotated[
        bool, Option(help="With --private: show it all the same, names and descriptions too.")
    ] = False,
    keep_current: Annotated[bool, Option(help="A tree of a new name does not become the current one.")] = False,
    limits: BuildOptions,
) -> None:
    """Build a tree of categories, in place of the one of the same name.

    waygraph taxonomy build --by vectors

    It is made of what everyone may see; the rest goes to the nearest leaf. A build by a model that was stopped goes on
    when it is started again. A tree of a new name becomes the current one. Of several, `taxonomy use` chooses.
    """
    from waygraph.registry.taxonomy import vectors_build
    from waygraph.registry.taxonomy.taxonomies import Structure

    if by and model:
        raise InvalidSetting(f"--by {by} needs no model; leave out --model, or --by")
    settings = TaxonomySettings(**vars(limits))
    with options.open_own() as registry, ExitStack() as stack:
        kind, reason = (Of(of), "") if of else _choose_kind(registry, settings.leaf_size, private)
        note(reason)
        builders: dict[str, Any] = {"vectors": vectors_build.build_by_vectors, "words": vectors_build.build_by_words}
        plain: Any = builders.get(by or "", vectors_build.build_without_model)
        if model:
            builder: Builder = _model_builder(model, settings, options.settings, stack)
        else:
            embed = None if by == "words" else registry.name_embedder()
            builder = partial(plain, settings=settings, embed=embed)
        tree = registry.build_taxonomy(
            builder, name=name, of=kind, private=private, shown_to_all=show_to_all, keep_current=keep_current
        )
        if tree.built_by == "words" and not by:
            note("built by words, since nothing here has a vector; `waygraph reindex --embedder minilm` makes them")
        note(_explain_undivided(registry, tree, private))
        note(name_undescribed(registry.agents()))
        _note_current(registry)
    options.show(Structure.of(tree), _view_numbers)


@taxonomy.command()
def use(options: Invocation, name: Annotated[str, Argument(metavar="NAME", help="Which taxonomy.")]) -> None:
    """Make a taxonomy the current one: what is browsed, walked and searched by `--within`.

    waygraph taxonomy use tools
    """
    options.answer(lambda registry: registry.operator.use_taxonomy(name), views.write)


@taxonomy.command()
def place(
    options: Invocation,
    *,
    name: Annotated[str, Option(metavar="NAME", help="Which taxonomy.")] = "main",
    model: Annotated[str, Option(metavar="openai:MODEL", help="A language model of OPENAI_BASE_URL.")],
) -> None:
    """Have a model place what was put into the nearest category since the build, by a call for each level.

    The current taxonomy stays the current one.

    waygraph taxonomy place --model openai:gpt-5-mini
    """
    from waygraph.registry.taxonomy.model_build import place_by_model
    from waygraph.registry.taxonomy.taxonomies import Structure

    with options.open_own() as registry, ExitStack() as stack:
        tree = registry.operator.taxonomy(name or None)
        if any(By.NEAREST in category.holds.values() for category in tree.categories.values()):
            builder = partial(place_by_model, answers=_model_answers(model, options.settings, stack))
            tree = registry.build_taxonomy(
                builder, name=name, of=tree.of, private=bool(tree.private), shown_to_all=tree.shown_to_all
            )
        else:
            note("nothing to place: since the build nothing was put into the nearest category")
    options.show(Structure.of(tree), _view_numbers)


@taxonomy.command("show")
def show_category(
    options: Invocation,
    path: Annotated[str, Argument(metavar="PATH", help="Such as travel/flights; none: the top.")] = "",
    *,
    name: Name = "",
    group: Annotated[Texts, Option(help="See it as a member of this group. Repeat.")] = None,
) -> None:
    """Show a category: what is below it, and what it holds."""
    from waygraph.registry.taxonomy.browse import browse

    with options.open() as registry:
        tree = registry.operator.taxonomy(name or None, principal=principal(group))
    options.show(browse(tree, path), _view_category)


@taxonomy.command()
def status(options: Invocation) -> None:
    """List the taxonomies: how far each has drifted from its build, and whether to build it anew."""
    options.answer(lambda registry: registry.operator.taxonomies(), _view_drift)


@taxonomy.command()
def check(options: Invocation, *, name: Name = "") -> None:
    """Tell the structure: categories, depth, sizes of leaves, what stands in no leaf or in several."""
    from waygraph.registry.taxonomy.taxonomies import Structure

    with options.open() as registry:
        tree = registry.operator.taxonomy(name or None)
    options.show(Structure.of(tree), _view_numbers)


@taxonomy.command()
def export(options: Invocation, *, name: Name = "") -> None:
    """Write a taxonomy as JSON: its categories, with what each holds."""
    with options.open() as registry:
        content = registry.operator.taxonomy(name or None).as_json()
    if options.as_json:
        options.show(content, lambda _: (), dict)
    else:
        print_raw(json.dumps(content, ensure_ascii=False, indent=2) + "\n")


@taxonomy.command()
def remove(
    options: Invocation, *, name: Annotated[str, Option(metavar="NAME", help="Which taxonomy.")] = "main"
) -> None:
    """Remove a taxonomy. Agents and tools stay. If it was the current one, the first that is left is."""

    with options.open_own() as registry:
        result = registry.forget_taxonomy(name)
        _note_current(registry)
    options.show(result, views.write)


def _note_current(registry: "LocalRegistry") -> None:
    """Which taxonomy is current, where there is one."""
    with suppress(UnknownName):
        note(f"the current taxonomy: {registry.operator.taxonomy().name}")


def _services(registry: "LocalRegistry", of: Of, private: bool) -> "list[Service]":
    from waygraph.registry.taxonomy.upkeep import read_placeable

    placeable = registry.read(partial(read_placeable, of=of))
    return [each.service for each in placeable.values() if private or each.is_public]


def _choose_kind(registry: "LocalRegistry", leaf_size: int, private: bool) -> tuple[Of, str]:
    """What a tree is of where nobody chose it, and why."""
    agents, tools = (len(_services(registry, of, private)) for of in (Of.AGENTS, Of.TOOLS))
    if agents <= leaf_size < tools:
        reason = f"of tools: all agents ({agents}) fit into one leaf of {leaf_size}, the tools ({tools}) do not"
        return Of.TOOLS, f"{reason}; --of agents sorts agents"
    return Of.AGENTS, f"of agents ({agents}); --of tools sorts tools ({tools})"


def _explain_undivided(registry: "LocalRegistry", tree: Taxonomy, private: bool) -> str:
    """Why a tree is its root alone, and what to do about it; empty if it is not."""
    if tree.root.children:
        return ""
    number, size = len(tree.root.holds), tree.settings.leaf_size
    if number > size:
        return f"nothing was divided: no part of the {tree.of} ({number}) is told apart from the rest"
    options = {} if tree.of is Of.TOOLS else {"--of tools ": len(_services(registry, Of.TOOLS, private))}
    least = 2 * (tree.settings.delete_size + 1)
    advice = [f"{of}--leaf-size {n // 2}" for of, n in {"": number, **options}.items() if n >= least]
    then = f"try {' or '.join(advice)}" if advice else f"fewer than {least} need no tree: search finds them"
    return f"nothing was divided: all {tree.of} ({number}) fit into one leaf of {size}; {then}"


def _model_builder(spec: str, settings: TaxonomySettings, own: "Settings", stack: ExitStack) -> "Builder":
    """Raises InvalidSetting, LanguageModelRefused."""
    from waygraph.registry.taxonomy.model_build import Work, build_by_model

    answers = _model_answers(spec, own, stack)
    last_note = ("", 0)

    def watch(work: Work) -> None:
        nonlocal last_note
        at, calls = f"{work.state} {work.path}".strip(), work.usage.calls + work.usage.kept
        if at != last_note[0] or calls - last_note[1] >= NOTED_EVERY:
            last_note = (at, calls)
            tokens = work.usage.prompt_tokens + work.usage.completion_tokens
            note(f"{at}: {calls} calls, {tokens} tokens, {work.waiting} wait")

    return partial(build_by_model, answers=answers, settings=settings, watch=watch)


def _model_answers(spec: str, own: "Settings", stack: ExitStack) -> "ModelAnswers":
    """Answers are kept in the cache folder, by model and prompt. Raises InvalidSetting, LanguageModelRefused."""
    from waygraph.registry.language_model.answers import ModelAnswers
    from waygraph.registry.language_model.endpoint import ChatModel, configured_model

    model = configured_model(
        spec, os.environ, option="--model", purpose="for the taxonomy", instead="build it by vectors, without --model"
    )
    folder = own.cache_path / "taxonomy"
    folder.mkdir(parents=True, exist_ok=True)
    answers = ModelAnswers(ChatModel.open(model, own, os.environ), folder / "answers.jsonl")
    stack.callback(answers.close)
    return answers


def _view_category(view: CategoryView) -> Iterator[Block]:
    columns = "taxonomy, of, built by, path, description, boundary, holds=count"
    yield Fields.of(view, columns, path=lambda each: each.path or "/")
    if view.children:
        yield Table.of(view.children, "category=path, holds=count, description, such as=examples")
    if view.members:
        yield Table((str(view.of),), [(each,) for each in view.members])


def _view_drift(drifts: Sequence[Drift]) -> Iterator[Block]:
    columns = "taxonomy, of, built by, built at, categories, holds=entities, nearest, over size, unplaced"
    yield Table.of(
        drifts, columns, spare=("built by", "of"), taxonomy=lambda each: f"{each.name}{' (current)' * each.current}"
    )
    for each in drifts:
        if each.rebuild:
            yield Aside(f"build {each.name} anew: {each.rebuild}")


def _view_numbers(numbers: "Structure") -> Iterator[Block]:
    yield Fields([(name.replace("_", " "), getattr(numbers, name)) for name in numbers.__dataclass_fields__])
