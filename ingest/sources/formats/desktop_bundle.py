"""The manifest.json of a desktop bundle (mcpb, dxt): a server as a host's file has it, and what a person must give."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from waygraph.ingest.manifest.fields import fields_of

SHAPE = '{"manifest_version": …, "name": …, "server": {"mcp_config": {"command": …}}} of a desktop bundle (.mcpb)'
_OF_USER = re.compile(r"\$\{user_config\.([^${}:]{1,128})\}")


def fits(document: Any) -> bool:
    is_bundle = isinstance(document, Mapping) and ("manifest_version" in document or "dxt_version" in document)
    return is_bundle and isinstance(document.get("server"), Mapping)


def as_config(document: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The bundle as a host's file; what is no bundle, as it is. Each value of `user_config` is an input: where it has
    no default, a variable of the environment gives it.
    """
    if not fits(document):
        return document
    entry = dict(fields_of(fields_of(document["server"]).get("mcp_config")))
    entry |= fields_of(fields_of(entry.pop("platform_overrides", None)).get(sys.platform))
    places = {"${__dirname}": str(Path(where).absolute().parent), "${HOME}": "${userHome}", "${pathSeparator}": "${/}"}

    def resolve(value: Any) -> Any:
        if isinstance(value, str):
            for name, place in places.items():
                value = value.replace(name, place)
            return _OF_USER.sub(r"${input:\1}", value)
        if isinstance(value, Mapping):
            return {name: resolve(part) for name, part in value.items()}
        return [resolve(part) for part in value] if isinstance(value, list) else value

    options = {name: fields_of(option) for name, option in fields_of(document.get("user_config")).items()}
    inputs = [
        {"id": name, "default": resolve(str(option["default"])), "password": option.get("sensitive") is True}
        for name, option in options.items()
        if isinstance(option.get("default"), (str, int, float))
    ]
    return {"mcpServers": [{**resolve(entry), "name": document.get("name")}], "inputs": inputs}
