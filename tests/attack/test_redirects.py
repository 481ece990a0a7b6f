"""Documents whose address redirects into the network of whoever fetches them."""

from typing import Any

import anyio
import pytest

from tests.web_pages import web_pages
from waygraph.ingest.sources.fetch import FetchFailed, Fetching, fetch
from waygraph.registry.http import guard
from waygraph.registry.http.addresses import Reach, reach_of
from waygraph.registry.model.settings import Settings

SETTINGS = Settings(fetch_total_s=60.0)
CATALOGUE = b'{"waygraph": 1, "agents": []}'


def refusal(url: str) -> str:
    with pytest.raises(FetchFailed) as caught:
        fetch(url, Fetching(settings=SETTINGS))
    return caught.value.reason


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "10.0.0.1",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[fd00:ec2::254]",
        "localhost",
        "127.0.0.1",
        "0.0.0.0",  # noqa: S104
    ],
)
def test_a_redirect_leads_to_no_private_address(host: str, proxied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is written; also where a proxy would be asked for it."""
    if proxied:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with web_pages() as web:
        web.redirect("/a", f"http://{host}:1/latest/meta-data")
        assert "may not be asked from here" in refusal(f"{web.url}/a")
        assert web.paths == ["/a"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "2130706433"])
def test_a_redirect_to_another_port_of_this_machine_is_not_followed(host: str) -> None:
    with web_pages() as web, web_pages({"/b": (200, {}, CATALOGUE)}) as other:
        web.redirect("/a", f"{other.url.replace('127.0.0.1', host)}/b")
        assert "a private or reserved address" in refusal(f"{web.url}/a")
        assert other.asked == []


def test_what_is_elsewhere_does_not_lead_back_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The origin that a person named may be private; another one may not send its requests there."""
    monkeypatch.setattr(
        guard, "reach_of", lambda address: Reach.NETWORK if address == "127.0.0.2" else reach_of(address)
    )
    with web_pages({"/c": (200, {}, CATALOGUE)}) as web, web_pages(host="127.0.0.2") as other:
        web.redirect("/a", f"{other.url}/b")
        other.redirect("/b", f"{web.url}/c")
        with pytest.raises(FetchFailed, match="private or reserved"):
            fetch(f"{web.url}/a", Fetching(settings=SETTINGS, beyond=Reach.NETWORK))
        assert (web.paths, other.paths) == (["/a"], ["/b"])


def test_the_address_that_was_judged_is_the_one_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a name that is public when it is judged, and would be private at a second look."""
    answers = iter(["93.184.216.34", "127.0.0.1"])
    dialled: list[str] = []
    connect_tcp = anyio.connect_tcp

    async def getaddrinfo(_: str, port: int, **__: Any) -> list[tuple[Any, ...]]:
        return [(2, 1, 6, "", (next(answers), port))]

    async def connect(**how: Any) -> Any:
        if how["remote_host"] == "127.0.0.1":  # the page that redirects
            return await connect_tcp(**how)
        dialled.append(how["remote_host"])
        raise OSError("no network in a test")

    with web_pages() as web:
        web.redirect("/a", "http://rebind.example/b")
        monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(anyio, "connect_tcp", connect)
        refusal(f"{web.url}/a")
        assert dialled == ["93.184.216.34"]
