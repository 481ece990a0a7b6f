"""What commands are built of: shared options, groups that import a command when it is asked for, lines after `--`."""

import inspect
import json
import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cached_property, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import typer
from typer import Argument, Option
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from waygraph.api.cli.render.output import Block, note, show
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.process import without_collection

type View[T] = Callable[[T], Iterable[Block]]
type ShapeOf[T] = Callable[[T], object] | None

if TYPE_CHECKING:
    from waygraph.ingest.sources.opening import Opening
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.operations.request import Request
    from waygraph.registry.registry import Registry
    from waygraph.registry.storage.local_registry import LocalRegistry


@dataclass(frozen=True)
class Invocation:
    """How a command was called. `location` empty: the default registry. `embedder` empty: the registry's own.

    `server_command`: what stands after `--`, the command line of another program. `subcommand`: of a group, the one
    that comes next; empty: none.
    """

    location: str = ""
    embedder: str = ""
    as_json: bool = False
    server_command: tuple[str, ...] = ()
    subcommand: str = ""

    @cached_property
    def settings(self) -> "Settings":
        from waygraph.registry.model.settings import load_settings

        return load_settings()

    @property
    def place(self) -> str | Path:
        """Where the registry is, or will be."""
        return self.location or self.settings.default_registry

    def own_place(self) -> str | Path:
        """The same, for what needs the registry itself. Raises NeedsRegistry if a service keeps it."""
        from waygraph.registry.storage.location import refuse_service

        refuse_service(self.place)
        return self.place

    def open(self) -> "Registry":
        """Raises RegistryUnusable, EmbedderMismatch, …"""
        from waygraph.registry.registry import Registry

        return Registry.open(self.place, embedder=self.embedder or None, settings=self.settings)

    def open_own(self, settings: "Settings | None" = None) -> "LocalRegistry":
        """The same, for what works on the graph itself. Raises NeedsRegistry if a service keeps it."""
        from waygraph.registry.storage.local_registry import LocalRegistry

        return LocalRegistry.open(self.own_place(), embedder=self.embedder or None, settings=settings or self.settings)

    def open_for_reindex(self) -> "LocalRegistry":
        """The registry with its own embedder: the one asked for is to come in its place."""
        return replace(self, embedder="").open_own(replace(self.settings, embedder=""))

    @property
    def wanted_embedder(self) -> str:
        """The spec asked for by option or environment; empty if none was."""
        return self.embedder or self.settings.embedder

    def answer[T](self, ask: "Callable[[Registry], T]", view: View[T], shape: ShapeOf[T] = None) -> T:
        """Asks the registry, and shows what it answers."""
        with self.open() as registry:
            answer = ask(registry)
        self.show(answer, view, shape)
        return answer

    def perform[A](self, request: "Request[A]", view: View[A], principal: Principal | None = None) -> A:
        """Has the registry perform it, and shows the answer; JSON is what a service answers."""
        return self.answer(lambda registry: registry.perform(request, principal), view, request.write)

    def show[T](self, thing: T, view: View[T], shape: ShapeOf[T] = None) -> None:
        """As `output.show`; without a `shape` JSON has the noun's own fields."""
        from waygraph.registry.model.shapes import shape as fields_of_noun

        show(thing, shape or fields_of_noun, view, self.as_json)

    def remark(self, text: str) -> None:
        """A note on an answer, from which a reader of JSON sees the same."""
        if not self.as_json:
            note(text)


def invocation(context: typer.Context) -> Invocation:
    """The program's own options, wherever they stand."""
    return context.obj if isinstance(context.obj, Invocation) else Invocation()


RECIPES = ("agents", "hybrid", "lexical", "paper", "ranks", "taxonomy", "tools")
Policy = Literal["accept", "hold", "strict"]
"""What the core knows and the help repeats, which must not import it; a test compares them."""


def _text_form(text: str) -> str:
    from waygraph.registry.model.errors import InvalidSetting
    from waygraph.registry.model.validation import read_form

    try:
        return read_form(text)
    except InvalidSetting as error:
        raise typer.BadParameter(str(error)) from error


_TEXT_FORMS = "contextual, plain, concat, tdwa-1, tdwa-2 or weights, as in tdwa:name=.2,questions=.8"


def offer_texts(help_text: str) -> Any:
    """The option for the form of texts to embed. `help_text`: with `{}` where the forms stand."""
    return Option(metavar="FORM", parser=_text_form, help=help_text.format(_TEXT_FORMS))


Texts = list[str] | None
"""The values of an option that may be repeated; None without it."""
AsJson = Annotated[bool, Option("--json", help="Print JSON, in the shape that docs/json-output.schema.json describes.")]
Groups = Annotated[
    Texts, Option("--group", metavar="GROUP", help="See what a member of this group sees. Repeat. Default: everything.")
]
_SERVED_HELP = "Only what is in this toolset, or else agents of sources with this namespace."
ServedNamespace = Annotated[str, Option("--namespace", "--toolset", metavar="NAME", help=_SERVED_HELP)]
AllowMassRemoval = Annotated[bool, Option(help="Let a source remove more than half of its agents.")]


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A parameter that is a dataclass of options, or a request, stands for its fields: each is an option or argument.

    An `Invocation` stands for the program's own options, and for --json behind all others. A request is named in
    quotes, so that it is imported for its own commands alone.
    """
    signature = inspect.signature(command, locals=_RequestKinds(), eval_str=True)
    groups: dict[str, Any] = {
        name: each.annotation for name, each in signature.parameters.items() if is_dataclass(each.annotation)
    }
    parts = {
        name: list(_parameters_of(group, signature.parameters))
        for name, group in groups.items()
        if group is not Invocation
    }
    parameters: list[inspect.Parameter] = []
    json_option: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if groups.get(name) is Invocation:
            parameters.append(parameter.replace(annotation=typer.Context))
            json_option = [inspect.Parameter("as_json", parameter.KEYWORD_ONLY, default=False, annotation=AsJson)]
        else:
            parameters += parts.get(name, [parameter])

    @wraps(command)
    def run(*args: object, **options: Any) -> None:
        for name, group in groups.items():
            if group is Invocation:
                context, as_json = options[name], options.pop("as_json")
                subcommand = context.invoked_subcommand or ""
                options[name] = replace(invocation(context), as_json=as_json, subcommand=subcommand)
            else:
                values = {each.name: options.pop(each.name) for each in parts[name]}
                options[name] = group(**{field: value for field, value in values.items() if value is not None})
        command(*args, **options)

    # Typer takes the annotations of the signature where there are no others.
    run.__annotations__ = {}
    named_parameters = list(map(_name_flag, [*parameters, *json_option]))
    run.__signature__ = signature.replace(parameters=named_parameters)  # type: ignore[attr-defined]
    return run


class _RequestKinds(dict[str, Any]):
    """By name, each when it is asked for."""

    def __missing__(self, name: str) -> Any:
        from waygraph.registry.operations import table  # noqa: F401 - with it all kinds are known
        from waygraph.registry.operations.request import Request

        return {kind.__name__: kind for kind in Request.request_kinds()}[name]


def _parameters_of(group: Any, own_names: Collection[str]) -> Iterator[inspect.Parameter]:
    """Of the fields of a dataclass, as their annotations say; of those of a request, as the service takes them, but for
    those that the command has as parameters of its own. Of a list all parts are asked for: it takes no `cursor`.
    """
    hints, defaults = get_type_hints(group, include_extras=True), {each.name: each.default for each in fields(group)}
    annotations = {name: hints[name] for name in defaults}
    if hasattr(group, "operation"):
        annotations = _request_options(group, hints, defaults.keys() - own_names - {"cursor"})
    for name, annotation in annotations.items():
        default = {MISSING: inspect.Parameter.empty, (): None}.get(defaults[name], defaults[name])
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_IDS = dict.fromkeys(("agent_id", "agent", "agents", "tools"), "ID")
_METAVARS = {**_IDS, "tags": "TAG", "callers": "GROUP", "name": "NAME"}
"""What stands for a value in the help, by the field of a request; where it is not here, its type."""


def _request_options(kind: "type[Request[Any]]", hints: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Of each field an option, or an argument where it has no default, with its text and limits; those of the class
    itself first. Of a list that comes in parts there may be any number of items.
    """
    from waygraph.registry.model.shapes import field_texts

    options, texts = dict[str, Any](), field_texts(kind)
    required_names = {each.name for each in fields(kind) if each.default is MISSING}
    for name in (each for base in kind.__mro__ for each in inspect.get_annotations(base) if each in names):
        value, *notes = get_args(hints[name]) if get_origin(hints[name]) is Annotated else [hints[name]]
        least, most = (next((getattr(each, at) for each in notes if hasattr(each, at)), None) for at in ("ge", "le"))
        is_list = get_origin(value) is Sequence
        how: dict[str, Any] = {
            "metavar": _METAVARS.get(name),
            "help": texts[name] + " Repeat." * is_list,
            "min": least,
            "max": None if "cursor" in hints else most,
        }
        flag = f"--{name.removesuffix('s') if is_list else name}".replace("_", "-")
        option = Argument(**how) if name in required_names else Option(flag, *["-k"] * (name == "limit"), **how)
        options[name] = Annotated[Texts if is_list else value, option]
    return options


def _name_flag(parameter: inspect.Parameter) -> inspect.Parameter:
    """A flag that has no name of its own is called as its parameter; typer would add `--no-…`."""
    match get_args(parameter.annotation):
        case [kind, option] if kind is bool and option.default is ...:
            flag = copy(option)
            flag.default = f"--{parameter.name.replace('_', '-')}"  # typer has the first name there
            return parameter.replace(annotation=Annotated[bool, flag])
    return parameter


def json_or_text(text: str) -> Any:
    """What an argument says: JSON where it is JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def principal(groups: Sequence[str] | None) -> Principal | None:
    """Who asks: a member of these groups, or without any the owner of this machine, who sees everything."""
    return Principal(groups=tuple(groups)) if groups else None


LAB = "waygraph-lab"
COMMANDS = "waygraph.commands"
"""The group of entry points by which another package brings commands."""


class LazyCommand(NamedTuple):
    """`place`: `module:thing`, a function or a typer.Typer of `commands`. `summary`: its line in the help.

    With `package`, another package brings the command, and `place` is the name of its entry point.
    """

    place: str
    summary: str
    cls: type[TyperCommand] = TyperCommand
    package: str = ""

    def load(self) -> Any:
        """None if the package that brings it is not installed."""
        if not self.package:
            module, _, attribute = self.place.partition(":")
            with without_collection():
                return getattr(import_module(f"waygraph.api.cli.commands.{module}"), attribute)
        from importlib.metadata import entry_points

        for entry_point in entry_points(group=COMMANDS, name=self.place):
            return entry_point.load()
        return None


class LazyGroup(TyperGroup):
    """A run needs one command, and importing all of them takes longer than a route."""

    lazy: Mapping[str, LazyCommand]
    """By name, in the order of the help."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - of the library
        return list(self.lazy)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in self.lazy:
            command = _import_command(cmd_name, self.lazy[cmd_name])
            _take_program_options(command, ctx.find_root().command if ctx else self)
            self.add_command(command, cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.lazy:  # the library names the nearest of those that it has
            for name in self.lazy:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - of the library
        """Each in one line, which is not cut, and without importing it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.lazy.items()])


def _import_command(name: str, command: LazyCommand) -> Any:
    around = typer.Typer(rich_markup_mode=None)
    if (thing := command.load()) is None:

        def refuse() -> None:
            from waygraph.registry.model.errors import MissingExtra

            raise MissingExtra(f"waygraph {command.place}", package=command.package)

        any_arguments = {"ignore_unknown_options": True, "allow_extra_args": True}
        around.command(name, add_help_option=False, context_settings=any_arguments)(refuse)
    elif isinstance(thing, typer.Typer):
        infos: list[Any] = [*thing.registered_commands, thing.registered_callback]
        for each in filter(None, infos):
            each.callback = with_option_groups(each.callback)
        around.add_typer(thing, name=name)
    else:
        around.command(name, cls=command.cls)(with_option_groups(thing))
    return get_group(around).commands[name]


_PROGRAM_OPTIONS = {"registry": "location", "embedder": "embedder"}
"""Options of the program that may also stand behind a command; each with its field of Invocation."""


def _take_program_options(command: Any, program: Any) -> None:
    """The command, and those below it, read them too; the help of the program alone shows them."""

    def put(context: typer.Context, option: Any, value: str | None) -> None:
        if value is not None:
            field: Any = {_PROGRAM_OPTIONS[option.name]: value}
            context.obj = replace(invocation(context), **field)

    for option in [each for each in program.params if each.name in _PROGRAM_OPTIONS]:
        behind = copy(option)
        vars(behind).update(hidden=True, expose_value=False, envvar=None, default=None, callback=put)
        command.params.append(behind)
    for below in getattr(command, "commands", {}).values():
        _take_program_options(below, program)


class CommandAfterDashes(TyperCommand):
    """Keeps what stands after `--` apart: it is another program's, options included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # What stands behind an option may be its value.
        places = [at for at in range(len(args)) if at == 0 or not args[at - 1].startswith("-")]
        commands = (_command_of(args[at:]) for at in places if "--" not in args)
        if command := next(filter(None, commands), []):
            right_form = f"{ctx.command_path} -- {shlex.join(command)}"
            ctx.fail(
                f"{command[0]!r} is a program, not a source. A server's command stands behind `--`: `{right_form}`"
            )
        at = args.index("--") if "--" in args else len(args)
        ctx.obj = replace(invocation(ctx), server_command=tuple(args[at + 1 :]))
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND ARG...]"]


_INTERPRETERS = {".py": "python", ".js": "node", ".mjs": "node", ".cjs": "node"}


def _command_of(words: Sequence[str]) -> list[str]:
    """How the program is started that these words begin with; empty: they begin with no program."""
    from waygraph.ingest.upstream.process_health import COMES_WITH

    word = Path(words[0] if words else "")
    if interpreter := _INTERPRETERS.get(word.suffix):
        return [*([] if shutil.which(word) else [interpreter]), *words]
    is_program = len(words) > 1 and not word.exists() and (str(word) in COMES_WITH or shutil.which(word))
    return list(words) if is_program else []


@dataclass(frozen=True, kw_only=True)
class NameOptions:
    """What agents are called, and of which form the sources are."""

    namespace: Annotated[str, Option(metavar="NAME", help="Put before an id that another agent already has.")] = ""
    kind: Annotated[
        str, Option(metavar="KIND", help="What the sources are, such as catalogue or openapi. Default: as they look.")
    ] = ""


_CONNECT_HELP = "Ask every server that can be asked for its tools, or none. Default: those of configurations."


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How addresses and servers are reached, and which of them are asked."""

    header: Annotated[Texts, Option(metavar="'NAME: VALUE'", help="Sent to an address; may hold ${VARIABLES}.")] = None
    env: Annotated[Texts, Option(metavar="NAME[=VALUE]", help="A variable for the command after --; alone: yours.")] = (
        None
    )
    isolate: Annotated[
        bool | None, Option("--isolate/--no-isolate", help="Confine the command after --, whatever is set.")
    ] = None
    oauth: Annotated[bool, Option(help="Log in to an address by OAuth, in your browser.")] = False
    since: Annotated[str, Option(metavar="TIME", help="Of an MCP registry: only what changed since (RFC 3339).")] = ""
    connect: Annotated[bool | None, Option("--connect/--no-connect", help=_CONNECT_HELP)] = None
    start: Annotated[
        bool, Option(help="Start and ask servers of configurations below a folder, or that fit a glob.")
    ] = False


def opening(
    settings: "Settings",
    environ: Mapping[str, str],
    names: NameOptions = NameOptions(),
    servers: ServerOptions = ServerOptions(),
    **more: Any,
) -> "Opening":
    """`more`: other fields of it. Raises BadParameter for a header or variable that cannot be read; its value is not
    shown.
    """
    from waygraph.ingest.manifest.environment import Surroundings
    from waygraph.ingest.sources.opening import Opening

    more |= vars(names) | vars(servers)
    more["headers"] = dict(map(_header, more.pop("header") or ()))
    more["env"] = dict(_variable(text, environ) for text in more["env"] or ())
    return Opening(settings=settings, surroundings=Surroundings.here(environ), **more)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or not value.strip():
        raise typer.BadParameter("expected 'NAME: VALUE'", param_hint="'--header'")
    return name.strip(), value.strip()


def _variable(text: str, environ: Mapping[str, str]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or (not equals and name not in environ):
        raise typer.BadParameter(f"{name or 'a variable without a name'}: not set here", param_hint="'--env'")
    return name, value if equals else f"${{{name}}}"
