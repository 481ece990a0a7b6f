"""A home of its own for each test, with hosts' configs in it, and `waygraph` run there."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli_answers import Answer, run_program
from tests.hosts.configs import CONFIGS, SECRETS
from waygraph.ingest.hosts.hosts import HOSTS, Places
from waygraph.registry.registry import Registry


@dataclass
class Home:
    """A person's home. `said`: all that any command printed."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    said: list[str] = field(default_factory=list)

    @property
    def registry(self) -> Path:
        return self.folder / "data" / "waygraph" / "registry.grafeo"

    @property
    def shelf(self) -> Path:
        return self.folder / "data" / "waygraph" / "hosts"

    def file(self, host: str) -> Path:
        """Where the host keeps its config."""
        return HOSTS[host].file(Places(home=self.folder, environ={}, platform="linux", cwd=self.folder / "work"))

    def put(self, host: str, text: str | None = None, *, file: Path | None = None) -> Path:
        """The host's config, with a real server in the place of its program."""
        file = file or self.file(host)
        file.parent.mkdir(parents=True, exist_ok=True)
        text = CONFIGS[host] if text is None else text
        text = text.replace("PYTHON", sys.executable).replace("PROGRAM", str(self.program))
        file.write_bytes(text.encode())
        return file

    @property
    def program(self) -> Path:
        return Path(__file__).with_name("tides.py")

    def run(self, *words: object) -> Answer:
        answer = run_program(self.capsys, *words)
        self.said += [answer.out, answer.err]
        return answer

    def tools(self) -> list[str]:
        with Registry.open(self.registry, embedder="none") as registry:
            return [tool.id for tool in registry.tools()] if registry.store.exists else []

    def told_a_secret(self) -> list[str]:
        return [secret for secret in SECRETS if any(secret in text for text in self.said)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Home:
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("WAYGRAPH_EMBEDDER", "none")
    monkeypatch.chdir(tmp_path / "work")
    return Home(tmp_path, capsys)
