"""Whether a run may ask an endpoint, which costs money: `--spend` says so, or a person at the terminal."""

import sys
from collections.abc import Callable, Mapping

from waygraph.registry.language_model.endpoint import ENDPOINT, model_in

SPEND = "--spend"
MODEL = "--model"


class NeedsSpend(Exception):
    """The message names the models that would be asked."""


def read_models(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables of ours that name models of an endpoint, such as WAYGRAPH_EMBEDDER=openai:m."""
    ours = {name: value for name, value in environ.items() if name.startswith("WAYGRAPH_")}
    return {name: value for name, value in ours.items() if any(map(model_in, value.split(",")))}


def remove_endpoint(environ: Mapping[str, str]) -> dict[str, str]:
    """Without address, key and models: whoever gets this can ask no endpoint."""
    left_out = {*ENDPOINT, *read_models(environ)}
    return {name: value for name, value in environ.items() if name not in left_out}


def confirm_at_terminal(question: str) -> bool:
    """False where nobody can answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def permitted_environ(
    environ: Mapping[str, str], *, model: str, spend: bool, confirm: Callable[[str], bool] = confirm_at_terminal
) -> Mapping[str, str]:
    """The environment that a run may read. `model`: the one of the option `--model`.

    What only happens to be configured is left out, and told. Raises NeedsSpend for a `model` that may not be asked.
    """
    models = read_models(environ) | ({MODEL: model} if model else {})
    names = ", ".join(f"{name}={value}" for name, value in models.items())
    if spend or (models and confirm(f"{names}: asking a language model costs money. Go on? [y/N] ")):
        return environ
    if model:
        raise NeedsSpend(f"{names}: asking a language model costs money: add {SPEND}")
    if models:
        print(f"{names}: not asked, as it costs money: add {SPEND}", file=sys.stderr)
    return remove_endpoint(environ)
