"""The explorer's pages in Chromium: when they are drawn, what they load, and how many frames a moving map has."""

import gzip
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2

from benchmarks.explorer.browser import started_browser
from benchmarks.processes import TIMEOUT_S

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTH, HEIGHT = 1280, 800
DRAWN = """
const note = () => { window.drawnMs = performance.now(); };
const look = () => {
  const found = document.querySelector("SELECTOR");
  requestAnimationFrame(found && (found.tagName !== "CANVAS" || found.width !== 300) ? note : look);
};
requestAnimationFrame(look);
"""
"""Run before the page's own scripts: `drawnMs`, from the navigation until the frame after the first with SELECTOR. A
canvas is 300 wide until something is drawn on it."""
MOVE = """
async ([seconds, isEmpty]) => {
  const map = document.querySelector(".graph canvas"), box = map.getBoundingClientRect();
  let canvas = map;
  if (isEmpty) {
    canvas = document.createElement("canvas");
    Object.assign(canvas, {width: map.width, height: map.height});
    Object.assign(canvas.style, {position: "absolute", inset: 0});
    map.parentElement.append(canvas);
  }
  map.setPointerCapture = () => {}; // no pointer is down that could be captured
  const pen = isEmpty && canvas.getContext("2d"), times = [];
  let x = box.left + box.width / 2, by = 12;
  const where = () => ({pointerId: 1, clientX: x, clientY: box.top + 200, buttons: 1});
  const send = (name) => map.dispatchEvent(new PointerEvent(name, where()));
  if (!isEmpty) send("pointerdown");
  await new Promise((resolve) => {
    const frame = (now) => {
      times.push(now);
      if (now - times[0] > 1000 * seconds) return resolve();
      if (x + by > box.right || x + by < box.left) by = -by;
      x += by;
      if (isEmpty) {
        pen.fillStyle = times.length % 2 ? "#fff" : "#fefefe";
        pen.fillRect(0, 0, canvas.width, canvas.height);
      } else send("pointermove");
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  if (isEmpty) canvas.remove(); else send("pointerup");
  return times;
}
"""
"""Moves the map by 12 pixels a frame, or fills an empty canvas of its size once a frame: the times of the frames."""

KEY_MS = 30
"""Between two keys: a person types each in 60 ms or more."""
TYPE = """
async ([text, keyMs]) => {
  const box = document.querySelector("textarea.box");
  const write = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set;
  const asked = () => performance.getEntriesByType("resource").filter((each) => each.name.endsWith("/v1/route"));
  performance.clearResourceTimings();
  for (let end = 1; end <= text.length; end++) {
    write.call(box, text.slice(0, end));
    box.dispatchEvent(new Event("input", {bubbles: true}));
    if (end < text.length) await new Promise((resolve) => setTimeout(resolve, keyMs));
  }
  const typed = performance.now();
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const isBusy = () => document.querySelector("main [aria-busy=true]");
  const isLast = () => asked().some((each) => each.startTime > typed) && !isBusy();
  while (!isLast()) await frame();
  const drawn = performance.now(), {startTime, encodedBodySize: bytes} = asked().at(-1);
  const nodes = document.querySelectorAll("main *").length;
  return {drawn_ms: drawn - typed, answer_ms: drawn - startTime, requests: asked().length, bytes, nodes};
}
"""
"""Types a text, key by key, and waits until the frame that draws its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPage:
    """Milliseconds from the navigation on; `files`: address → bytes as they were sent, without headers. `requests`: all
    of them, to the service too; `nodes`: elements of the page with its answer.
    """

    paint_ms: float
    load_ms: float
    answer_ms: float
    files: Mapping[str, int]
    requests: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedAnswer:
    """`drawn_ms`: from the last key; `answer_ms`: from the request that the pause after it sends. `requests`: for
    answers while it was typed; `bytes`: of the answer; `nodes`: elements of the page.
    """

    drawn_ms: float
    answer_ms: float
    requests: int
    bytes: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Of some seconds of movement."""

    a_second: float
    worst_ms: float


def open_first_page(url: str, text: str) -> FirstPage:
    """The page Ask with an answer to `text`, in a browser that was just started and has nothing kept."""
    with opened_page(f"{url}/explore?q={quote(text)}", ".matches h3") as (page, answer_ms):
        loaded = page.evaluate("performance.getEntries().map((each) => [each.name, each.encodedBodySize])")
        return FirstPage(
            paint_ms=page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"),
            load_ms=page.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart"),
            answer_ms=answer_ms,
            files={name.partition("?")[0]: size for name, size in loaded if size and "/explore" in name},
            requests=sum(name.startswith("http") for name, _ in loaded),
            nodes=page.locator("main *").count(),
        )


def type_requests(url: str, texts: Sequence[str]) -> list[TypedAnswer]:
    """Each typed over the one before, in one browser; the first one loads what the others have, and is not counted."""
    with opened_page(f"{url}/explore", "textarea.box") as (page, _):
        return [TypedAnswer(**page.evaluate(TYPE, [text, KEY_MS])) for text in texts][1:]


def gzip_bytes(addresses: Sequence[str]) -> int:
    """What these files are together, each compressed as servers do it."""
    with httpx2.Client(timeout=TIMEOUT_S) as client:
        return sum(len(gzip.compress(client.get(each).raise_for_status().content, 6)) for each in addresses)


@contextmanager
def opened_page(address: str, selector: str) -> "Iterator[tuple[Page, float]]":
    """In a new browser: the page, and milliseconds from the navigation until `selector` is drawn."""
    from playwright.sync_api import expect

    with started_browser() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.add_init_script(DRAWN.replace("SELECTOR", selector))
        page.goto(address, timeout=1000 * TIMEOUT_S)
        expect(page.locator(selector).first).to_be_visible(timeout=1000 * TIMEOUT_S)
        drawn: Any = None
        while drawn is None:  # what waits for a text that it evaluates, the pages' policy forbids
            page.wait_for_timeout(20)
            drawn = page.evaluate("window.drawnMs ?? null")
        yield page, float(drawn)


def move(page: "Page", seconds: float, *, is_empty: bool) -> Frames:
    """The map under a pointer, or an empty canvas in its place."""
    times: list[float] = page.evaluate(MOVE, [seconds, is_empty])
    steps = [after - before for before, after in pairwise(times)]
    return Frames(a_second=1000 * len(steps) / (times[-1] - times[0]), worst_ms=max(steps))
