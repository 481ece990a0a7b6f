"""How an MCP server is started or reached: values, with their secrets, that live in memory only.

What the graph keeps of a launch goes through `references_only`; no `repr` and no error shows a value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from waygraph.ingest.manifest.records import AgentRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioLaunch:
    """A command to start; its arguments may hold secrets as well. `env` is all that the server gets beside PATH, HOME,
    LOGNAME, SHELL, TERM and USER. `cwd` empty: ours.
    """

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    handshake: bool = False
    """Whether to speak to it in the handshake era of the protocol, whatever else it speaks."""
    confidential: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """What references in it stood for, wherever they stood: no message shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLaunch:
    """An address to ask, over streamable HTTP or the older SSE."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Literal["http", "sse"] = "http"
    oauth: bool = False
    """Whether to log in by OAuth, with the tokens kept for this address."""
    public: bool = False
    """Whether only addresses of the open internet may be connected to: somebody else named it."""
    handshake: bool = False
    """As of a StdioLaunch."""
    confidential: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """As of a StdioLaunch."""


Launch = StdioLaunch | HttpLaunch


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """A server that a source names. `record`: what the source itself says of it, its transport as written there."""

    key: str
    launch: Launch = field(repr=False)
    record: AgentRecord = field(repr=False)
    where: str = ""
    """The document that names it, of a source that has several; empty: the source itself."""
    in_config: bool = False
    """Whether that document is a client's config, where `config_entry` finds it again with all its values."""
    written: str = field(default="", repr=False)
    """All that the config says of the launch, in one text: its values as they stand there, references by their own
    text, and the variables of its `envFile`. Of servers in a config."""
