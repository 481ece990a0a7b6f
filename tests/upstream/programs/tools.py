"""A server of the handshake era whose tools do what a test asks, byte for byte: `tools.py [SECONDS TO START]`.

Standard library alone. It goes on reading while a tool waits, and lists in place of tools what it got.
"""

import array
import fcntl
import json
import os
import sys
import termios
import time
from collections.abc import Callable
from typing import Any, TextIO

RICH = {
    "content": [
        {"type": "text", "text": "héllo", "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png", "extra": 1},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "A", "mimeType": "text/plain", "odd": None}},
        {"type": "resource_link", "uri": "file:///b", "name": "b"},
        {"type": "not of any protocol", "deep": {"er": [1, 2.5, None]}},
    ],
    "structuredContent": {"rows": [{"id": 10**18, "z": None}]},
    "isError": False,
    "_meta": {"example.com/trace": "t-1"},
    "ofTomorrow": {"kept": True},
}
heard: list[Any] = []
asked: dict[str, Any] = {}
"""By the id of our question, the id of the call for which it was asked."""
waiting: list[Any] = []
speaks_late: list[str] = []


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text_of(said: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said if isinstance(said, str) else json.dumps(said)}]}


def ask(call: Any, method: str, params: dict[str, Any]) -> None:
    asked[name := f"q{len(asked) + 1}"] = call
    say(id=name, method=method, params=params)


Call = tuple[Any, dict[str, Any], dict[str, Any]]
"""The id of the call, its arguments, its `_meta`."""


def progresses(call: Call) -> Any:
    _, given, meta = call
    token = meta.get("progressToken")
    for step in range(given["times"]):  # some servers make a text of the token
        params = {"progressToken": str(token) if step % 2 else token, "progress": step, "total": given["times"]}
        say(method="notifications/progress", params={**params, "message": f"step {step}"})
    return text_of("done")


def logs(call: Call) -> Any:
    for number in range(call[1].get("times", 1)):
        data = {"number": number, "with": os.environ.get("KEY", "")}
        say(method="notifications/message", params={"level": "warning", "logger": "press", "data": data})
    return text_of("done")


def asks(call: Call) -> None:
    ask(call[0], call[1]["method"], call[1].get("params", {}))


def asks_and_ends(call: Call) -> Any:
    ask(call[0], "elicitation/create", {"message": "?"})
    return text_of("not needed")


def asks_and_withdraws(call: Call) -> Any:
    ask(call[0], "elicitation/create", {"message": "?"})
    say(method="notifications/cancelled", params={"requestId": f"q{len(asked)}"})
    return text_of("never mind")


def asks_later(call: Call) -> Any:
    """After its answer, once a call waits, or once it is asked for its tools. It logs, too."""
    speaks_late.append(call[1].get("once", "waits"))
    return text_of("wait and see")


def speak_late(once: str) -> None:
    if once in speaks_late:
        speaks_late.remove(once)
        logs((None, {}, {}))
        ask(None, "elicitation/create", {"message": "?"})


def waits(call: Call) -> None:
    waiting.append(call[0])
    heard.append({"waits": call[0]})
    speak_late("waits")


def release(_: Call) -> Any:
    for one in waiting:
        say(id=one, result=text_of("released"))
    waiting.clear()
    return text_of("done")


def dies(call: Call) -> None:
    if file := call[1].get("file"):
        with open(file, "a", encoding="utf-8") as deaths:
            deaths.write("x")
    sys.stderr.write(f"Error: out of paper, with {os.environ.get('KEY')}\n")
    sys.stderr.flush()
    os._exit(4)


def held_by_pipe(pipe: TextIO) -> int:
    """How many bytes nobody has read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def hoards(_: Call) -> None:
    """Memory at some 500 MB a second."""
    taken = list[bytearray]()
    while True:
        taken.append(bytearray(b"x") * 5_000_000)
        time.sleep(0.01)


def complains(call: Call) -> Any:
    """And goes on."""
    sys.stderr.write("Traceback (most recent call last):\nValueError: an error that is survived\n")
    sys.stderr.flush()
    while held_by_pipe(sys.stderr):  # it is heard before the answer is
        time.sleep(0.01)
    return text_of("as ever")


def dies_quietly(_: Call) -> None:
    sys.stderr.write("good night\n")
    sys.stderr.flush()
    os._exit(5)


def dies_afterwards(call: Call) -> None:
    say(id=call[0], result=text_of("farewell"))
    os._exit(0)


def answers_null(call: Call) -> None:
    say(id=call[0], result=None)


def answers_error_of_words(call: Call) -> None:
    say(id=call[0], error="out of paper")


def sleeps(call: Call) -> Any:
    time.sleep(call[1]["seconds"])
    return text_of("woke")


TOOLS: dict[str, Callable[[Call], Any]] = {
    "echo": lambda call: text_of(call[1]),
    "waiting": lambda _: text_of(len(waiting)),
    "who": lambda _: text_of(os.getpid()),
    "rich": lambda _: RICH,
    "fails": lambda _: {**text_of("out of paper"), "isError": True},
    "environment": lambda call: text_of(os.environ.get(call[1]["name"], "")),
    **{tool.__name__: tool for tool in (progresses, logs, asks, asks_and_ends, asks_later, asks_and_withdraws)},
    "waits": waits,
    "release": release,
    "dies": dies,
    "complains": complains,
    "hoards": hoards,
    "dies_quietly": dies_quietly,
    "dies_afterwards": dies_afterwards,
    "sleeps": sleeps,
    "answers_null": answers_null,
    "answers_error_of_words": answers_error_of_words,
}


def call(message: dict[str, Any]) -> None:
    params = message["params"]
    if params["name"] == "errs":
        data = {"key": os.environ.get("KEY"), "list": [1, {"deep": f"<{os.environ.get('KEY')}>"}]}
        error = {"code": -32050, "message": f"no paper for {os.environ.get('KEY')}", "data": data}
        say(id=message["id"], error=error)
        return
    result = TOOLS[params["name"]]((message["id"], params.get("arguments") or {}, params.get("_meta") or {}))
    if result is not None:
        say(id=message["id"], result=result)


def greeting(params: dict[str, Any]) -> dict[str, Any]:
    heard.append({"capabilities": params["capabilities"]})
    return {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}, "logging": {}},
        "serverInfo": {"name": "tools", "version": "1"},
    }


def main() -> None:
    time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method is None:
            heard.append(message)
            if (waits_for_it := asked.get(message["id"])) is not None:
                say(id=waits_for_it, result=text_of(message.get("result") or message.get("error")))
        elif method == "tools/call":
            call(message)
        elif method == "initialize":
            say(id=message["id"], result=greeting(message["params"]))
        elif method == "tools/list":
            speak_late(method)
            say(id=message["id"], result={"tools": heard})
        elif method == "notifications/initialized":
            say(id="roots-1", method="roots/list")
        elif method == "logging/setLevel":
            heard.append({"level": message["params"]["level"]})
            if "will_not_be_told" not in sys.argv:
                say(id=message["id"], result={})
        elif "id" in message:
            say(id=message["id"], error={"code": -32601, "message": "Method not found"})
        else:
            heard.append(message)


if __name__ == "__main__":
    main()
