"""Settings from the environment: plain values, checked, with the variable's name in every error."""

import sys
from dataclasses import fields

import pytest

from benchmarks.world import DATA_VARIABLE
from waygraph.api.cli.app import misspelt
from waygraph.api.rest.bootstrap import OPTIONS_VARIABLE
from waygraph.ingest.manifest.environment import INPUT_PREFIX
from waygraph.ingest.manifest.records import StdioLaunch
from waygraph.ingest.upstream import stdio
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.errors import InvalidSetting, UpstreamUnreachable
from waygraph.registry.model.settings import MAY_BE_ZERO, PREFIX, VARIABLES, Settings, load_settings


def test_every_setting_has_its_variable() -> None:
    for field in fields(Settings):
        value = "True" if field.type is bool else "7" if field.type in (int, float) else "seven"
        value = '{"seven": 7}' if field.name == "openai_body" else value
        loaded = load_settings({PREFIX + field.name.upper(): value})
        assert str(getattr(loaded, field.name)).removesuffix(".0") == value
        assert type(getattr(loaded, field.name)) is field.type


@pytest.mark.parametrize(
    ("name", "value"),
    [("WRITE_TIMEOUT_S", "soon"), ("MAX_QUERY_CHARS", "1.5"), ("CYPHER_MAX_ROWS", "many"), ("MAX_SOURCE_BYTES", "1G")],
)
def test_a_value_out_of_shape_names_the_variable(name: str, value: str) -> None:
    with pytest.raises(InvalidSetting, match=f"{PREFIX}{name}='{value}': expected a"):
        load_settings({PREFIX + name: value})


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999", "9" * 400, "1e12", "-1"])
def test_a_time_that_no_clock_takes_is_refused(value: str) -> None:
    for name in ("call_timeout_s", "drain_timeout_s", "rate_per_minute", "max_body_bytes"):
        with pytest.raises(InvalidSetting, match=f"{PREFIX}{name.upper()}=.{{1,120}}expected a"):
            load_settings({PREFIX + name.upper(): value})


@pytest.mark.parametrize("value", [10**400, 10**5_000, True, float("nan")], ids=("large", "larger", "flag", "nan"))
def test_what_a_program_sets_is_checked_as_well(value: float) -> None:
    for name in ("call_timeout_s", "max_body_bytes"):
        with pytest.raises(InvalidSetting, match=name.upper()):
            Settings(**{name: value})  # type: ignore[arg-type]


NUMBERS = {field.name: 1 for field in fields(Settings) if field.type in (int, float) and field.name not in MAY_BE_ZERO}


@pytest.mark.parametrize(("name", "least"), sorted(NUMBERS.items()))
def test_with_less_of_most_nothing_could_be_done(name: str, least: int) -> None:
    """No time, no bytes, no place to work: refused by the variable's name, and not at the first request."""
    value = getattr(Settings(), name).__class__(least - 1)
    allowed = f"whole number from {least}" if isinstance(value, int) else "number above 0"
    with pytest.raises(InvalidSetting, match=f"{PREFIX}{name.upper()}={value}: expected a {allowed}\\b"):
        load_settings({PREFIX + name.upper(): str(least - 1)})
    assert getattr(load_settings({PREFIX + name.upper(): str(least)}), name) == least


@pytest.mark.parametrize(
    ("kept_bytes", "told"),
    [
        (4096, "ended with exit status 3: line 004 line 005 line 006 line 007 line 008 line 009"),
        (5, "ended with exit status 3, and said nothing"),
    ],
)
async def test_the_last_words_of_a_server_are_told(kept_bytes: int, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that writes ten lines of nine characters to stderr and ends."""
    monkeypatch.setattr(stdio, "ERRORS_BYTES", kept_bytes)
    program = "import sys; sys.stderr.writelines(f'line {n:03}\\n' for n in range(10)); sys.exit(3)"
    with pytest.raises(UpstreamUnreachable) as failed:
        async with connect(StdioLaunch(command=sys.executable, args=("-S", "-c", program)), Settings()):
            pass
    assert failed.value.reason == told


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("thinking off", "is not JSON"),
        ('{"top_p": NaN}', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('["sk-1"]', "expected a JSON object"),
        ('{"model": "sk-1", "stream": true, "top_p": 1}', "model, stream cannot be set"),
    ],
    ids=range(5),
)
def test_fields_of_requests_are_an_object_and_quoted_by_no_error(body: str, fault: str) -> None:
    with pytest.raises(InvalidSetting, match=f"WAYGRAPH_OPENAI_BODY: {fault}") as caught:
        load_settings({"WAYGRAPH_OPENAI_BODY": body})
    assert "sk-1" not in f"{caught.value} {Settings(openai_body='{"user": "sk-1"}')}"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("WAYGRAPH_EMBEDER", "WAYGRAPH_EMBEDDER"),
        ("WAYGRAPH_LOGLEVEL", "WAYGRAPH_LOG_LEVEL"),
        ("WAYGRAPH_REQUEST_TIMEOUT", "WAYGRAPH_REQUEST_TIMEOUT_S"),
        ("WAYGRAPH_KEY_FILE", "WAYGRAPH_KEYS_FILE"),
        ("WAYGRAPH_REGISTERY", "WAYGRAPH_REGISTRY"),
    ],
)
def test_a_misspelt_variable_is_told_with_the_nearest(given: str, meant: str) -> None:
    assert misspelt({given: "anything", "HOME": "/"}) == f"{given} is no setting; did you mean {meant}?"
    assert misspelt({"WAYGRAPH_SCANNER": "x", "WAYGRAPH_LOG_FORMAT": "text"}) == (
        "WAYGRAPH_LOG_FORMAT is no setting; WAYGRAPH_SCANNER is no setting"
    )


@pytest.mark.parametrize(
    "name",
    [
        *sorted(VARIABLES),
        "WAYGRAPH_REGISTRY",
        OPTIONS_VARIABLE,
        DATA_VARIABLE,
        f"{INPUT_PREFIX}API_KEY",
        "WAYGRAPH_TEST_CACHE",
        "WAYGRAPH_REQUIRE_NEO4J",
        "WAYGRAPH_SERVICE_HOST",
        "WAYGRAPH_SERVICE_PORT_HTTP",
        "WAYGRAPH_PORT_8080_TCP_ADDR",
        "WAYGRAPH_NEO4J_SERVICE_HOST",
        "WAYGRAPH_NEO4J_PORT_7687_TCP",
        "EMBEDER",
    ],
)
def test_no_other_variable_is(name: str) -> None:
    """Settings; what the program, tests and benchmarks read; what a cluster tells of a service."""
    assert misspelt({name: "anything"}) == ""
