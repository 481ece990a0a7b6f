"""`export`, `doctor` and others: take the registry along, see whether it is well; models and counts that it learns."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from waygraph.api.cli.options import LAB, Invocation, LazyCommand, LazyGroup
from waygraph.api.cli.render import views
from waygraph.api.cli.render.output import Fields, Lines, Table, note, print_raw, read_fields
from waygraph.registry.embedding import weights
from waygraph.registry.embedding.factory import default_spec
from waygraph.registry.model import shapes
from waygraph.registry.model.errors import StorageFailed, WaygraphError

if TYPE_CHECKING:
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.operations.graph_views import Export
    from waygraph.registry.storage.integrity.findings import Finding


def export(
    options: Invocation,
    *,
    request: "Export",
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write here. Default, and -: standard output.")
    ] = None,
) -> None:
    """Write the whole registry as JSON, GraphML or HTML.

    JSON can be ingested again, GraphML is for other graph programs, HTML to look at.
    """
    from waygraph.registry.model.files import write_named
    from waygraph.registry.storage.location import is_part_of

    output = None if output == Path("-") else output
    if output and is_part_of(output, options.place):
        raise StorageFailed(f"{output} is of the registry itself, which would be lost: name another file")
    with options.open() as registry:
        content = registry.perform(request)
    if output:
        write_named(output, content)
    elif not options.as_json:
        print_raw(content)
        return
    form, path, size_bytes = request.format, str(output) if output else None, len(content.encode())
    document = {"format": form, "path": path, "size_bytes": size_bytes, "content": None if output else content}
    fields = Fields((("written", path), ("format", form), ("size in bytes", size_bytes)))
    options.show(document, lambda _: [fields], dict)


def doctor(
    options: Invocation,
    deep: Annotated[bool, Option(help="Compare every record of the index with the graph.")] = False,
    repair: Annotated[
        bool, Option(help="First make a graph that lost what its index shows anew, from the index.")
    ] = False,
) -> None:
    """Check that the registry is well; exit 1 and advice if not."""
    if repair:
        _repair(options)
    findings = _findings(options, deep)
    unwell = [finding for finding in findings if not finding.ok]
    options.show(
        findings,
        lambda some: [Table.of(some, "check, ok, detail, advice")],
        lambda some: {"ok": not unwell, "findings": shapes.shape(some)},
    )
    if unwell:
        note(f"{len(unwell)} of {len(findings)} checks failed")
        raise typer.Exit(1)


def _repair(options: Invocation) -> None:
    from waygraph.registry.storage.migrate import repair_at

    if (report := repair_at(str(options.own_place()), options.settings)) is None:
        note("nothing to repair: the index knows the graph")
        return
    note(
        f"made anew from the index: {report.agents} agents, {report.tools} tools at revision {report.revision}; "
        f"the log of changes begins anew, the former graph is kept as {report.target}"
    )


def _findings(options: Invocation, deep: bool) -> "list[Finding]":
    """What the examination found; the one reason why there was none, if the registry cannot be opened."""
    from waygraph.ingest.upstream.process_health import limits_in_words, missing_limits
    from waygraph.registry.storage.integrity.examine import examine_at
    from waygraph.registry.storage.integrity.findings import Finding

    settings = options.settings
    servers = Finding(check="servers", ok=True, detail=missing_limits() or limits_in_words(settings))
    others = [*_file_findings(settings), servers]
    if options.embedder:
        settings = replace(settings, embedder=options.embedder)
    place = options.own_place()
    try:
        return [*examine_at(place, deep=deep, settings=settings, environ=os.environ), *others]
    except WaygraphError as error:
        return [Finding(check="registry", ok=False, detail=str(error)), *others]


def _file_findings(settings: "Settings") -> "list[Finding]":
    """Of the files beside the registry on which callers and servers depend: whether each can be read."""
    from waygraph.ingest.execution.services import load_services
    from waygraph.ingest.hosts.backup import Shelf
    from waygraph.ingest.logins.oauth import token_file
    from waygraph.ingest.logins.store import login_file
    from waygraph.ingest.manifest.trust_store import vouched_file
    from waygraph.registry.access.authenticator import key_file
    from waygraph.registry.access.policy import load_policy
    from waygraph.registry.storage.integrity.findings import Finding

    keys, trust = key_file(settings), vouched_file(settings.data_path, "")
    tokens, logins = token_file(settings.data_path, ""), login_file(settings)
    takeovers = sorted((settings.data_path / "hosts").glob("*.takes"))
    readers: dict[Path, Callable[[], object]] = {
        keys.path: keys.list,
        trust.path: lambda: trust.source(""),
        tokens.path: tokens.read,
        logins.path: logins.list,
        Path(settings.policy_file): lambda: load_policy(settings.policy_file),
        Path(settings.services_file): lambda: load_services(settings.services_file),
        **{file: Shelf(file.parent, file.stem).takes for file in takeovers},
    }
    findings: list[Finding] = []
    for path, read in readers.items():
        try:
            read()
        except (WaygraphError, RecursionError) as error:
            findings.append(Finding(check=path.name, ok=False, detail=str(error)))
    present = ", ".join(path.name for path in readers if path.is_file())
    return findings or [Finding(check="files", ok=True, detail=present or "none beside the registry")]


def migrate(
    options: Invocation,
    source: Annotated[str, Argument(metavar="FROM", help="A registry: a file or a server; it is only read.")],
    target: Annotated[str, Argument(metavar="TO", help="A file or a server's database that holds no registry yet.")],
) -> None:
    """Copy a registry to another file or server, vectors included.

    waygraph migrate tools.grafeo neo4j://host

    Nothing is embedded anew. The copy counts as a registry once it is found to be the same; if it is cut short, the
    same command goes on with it.
    """
    from waygraph.api.cli.render.progress import progress_bar
    from waygraph.registry.storage.migrate import migrate_at

    options.own_place()
    with progress_bar("Copying") as progress:
        migration = migrate_at(source, target, options.settings, progress)
    start, end = "from=source, to=target, revision, agents, tools, sources, claims, ", ", sha256, seconds"
    columns = f"{start}operators' words=settings, vectors, rows copied=copied{end}=duration"
    options.show(
        migration,
        lambda each: [Fields.of(each, columns, duration=lambda each: f"{each.seconds:.2f}")],
        lambda each: dict(read_fields(each, f"{start}settings, vectors, copied{end}")),
    )
    if not migration.copied:
        note("the copy was there already; it was compared and left as it is")


Spec = Annotated[
    str, Argument(metavar="SPEC", help="Such as onnx:BAAI/bge-small-en-v1.5. Default: --embedder, or Waygraph's own.")
]

model = typer.Typer(no_args_is_help=True, help="Get and list embedding models.")


@model.command()
def pull(options: Invocation, spec: Spec = "") -> None:
    """Fetch a model from the Hugging Face hub into the cache, and print its folder."""
    spec = spec or options.wanted_embedder or default_spec(options.settings)
    folder = weights.pull(spec, options.settings)
    options.show({"spec": spec, "path": str(folder)}, lambda each: [Lines(each["path"])], dict)


@model.command("list")
def list_models(options: Invocation) -> None:
    """List the models on this machine."""
    columns = "model=spec, languages, where, folder, sha256"
    options.show(
        weights.list_models(options.settings),
        lambda models: [Table.of(models, columns, spare=("sha256", "folder"), folder=lambda each: str(each.path))],
        lambda models: {"models": [{**asdict(each), "path": str(each.path)} for each in models]},
    )


class _Learn(LazyGroup):
    lazy = {  # noqa: RUF012 - never changed
        "embedder": LazyCommand("learn embedder", "Fine-tune an embedder on requests with known tools.", package=LAB),
        "ranker": LazyCommand("learn ranker", "Learn to order the best candidates (LambdaMART).", package=LAB),
        "suspicion": LazyCommand("learn suspicion", "Learn to score suspicious sentences.", package=LAB),
        "transitions": LazyCommand("learn transitions", "Count which tool is called after which.", package=LAB),
        "remove": LazyCommand("maintain:remove_counts", "Remove the counts of which tool was called after which."),
        "export": LazyCommand(
            "maintain:export_counts", "Write the counts, a JSON object a line, for `learn transitions`."
        ),
    }


learn = typer.Typer(cls=_Learn, no_args_is_help=True, help="Learn from data with known answers.")


def remove_counts(options: Invocation) -> None:
    """Remove the counts of which tool was called after which."""
    from waygraph.registry.operators.transition_counts import forget_transitions

    with options.open_own() as registry:
        registry.status()
        result = registry.change(forget_transitions)
    options.show(result, views.write)


def export_counts(options: Invocation) -> None:
    """Write the counts, a JSON object a line, for `learn transitions`."""
    from waygraph.registry.graph.read import read_transitions

    with options.open_own() as registry:
        counts = [asdict(each) for each in registry.read(read_transitions)]
    if options.as_json:
        options.show(counts, lambda _: (), list)
    else:
        print_raw("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in counts))
