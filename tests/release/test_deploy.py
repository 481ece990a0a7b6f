"""deploy/: the unit of systemd and the Helm chart, read by their own programs where these are installed."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from configparser import ConfigParser
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.environments import NotInstalled, go_environment, installed
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.model.settings import Settings

HELM = go_environment("helm", Path(__file__).parent / "pins" / "helm.txt")
NEEDED = {
    "neo4j": {"url": "neo4j+s://db.example.com", "passwordSecret": {"name": "database"}},
    "apiKeys": {"secret": "keys"},
}
"""What has no default that could be right."""


@pytest.fixture(scope="module")
def unit(root: Path) -> str:
    return (root / "deploy" / "systemd" / "waygraph.service").read_text(encoding="utf-8")


def test_the_unit_may_do_little(unit: str) -> None:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit)
    service = parser["Service"]
    assert service["User"] != "root"
    assert (service["NoNewPrivileges"], service["CapabilityBoundingSet"]) == ("yes", "")
    assert (service["ProtectSystem"], service["StateDirectory"]) == ("strict", "waygraph")
    assert service["Restart"] == "on-failure"
    assert {"MemoryMax", "TasksMax"} <= set(service)
    assert service["OOMPolicy"] == "continue"
    assert "WAYGRAPH_NEO4J_PASSWORD=" not in unit.partition("[Unit]")[2], "secrets come from the environment file"
    drain_s = Settings().drain_timeout_s
    assert int(service["TimeoutStopSec"].removesuffix("s")) > drain_s


def test_systemd_takes_the_unit(unit: str, tmp_path: Path) -> None:
    """And finds little that it could do to the machine: 10 would be everything."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "waygraph.service"
    file.write_text(unit.replace("/opt/waygraph/bin/waygraph", sys.executable), encoding="utf-8")
    done = subprocess.run([program, "verify", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    command = [program, "security", "--offline=yes", "--threshold=20", "--no-pager", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-500:]


@pytest.fixture(scope="module")
def chart(root: Path) -> Path:
    return root / "deploy" / "helm" / "waygraph"


def built_helm() -> str:
    """Built from its source: the package indexes have no helm. A slow machine may not build it in time."""
    outcome = installed(HELM)
    if isinstance(outcome, NotInstalled):
        pytest.skip(f"helm is not installed: {outcome}")
    return str(outcome / "helm")


def helm(chart: Path, verb: str, *options: str, **values: object) -> subprocess.CompletedProcess[str]:
    program = shutil.which("helm") or built_helm()
    release = ["waygraph"] if verb == "template" else []
    command = [program, verb, *release, str(chart), "--kube-version=1.30.0", "--values=-", *options]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)


def rendered(chart: Path, **values: object) -> dict[str, dict[str, Any]]:
    """Kind → what Kubernetes gets."""
    done = helm(chart, "template", **NEEDED, **values)
    assert done.returncode == 0, done.stderr
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}


def test_helm_finds_no_fault_in_the_chart(chart: Path) -> None:
    done = helm(chart, "lint", "--strict", **NEEDED)
    assert done.returncode == 0, done.stdout


def test_two_replicas_run_as_nobody_on_a_disk_that_they_cannot_write(chart: Path) -> None:
    documents = rendered(chart)
    assert set(documents) == {"Deployment", "PodDisruptionBudget", "Service"}
    assert documents["Deployment"]["spec"]["replicas"] == 2
    assert documents["PodDisruptionBudget"]["spec"]["minAvailable"] == 1
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    paths = {name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe", "startupProbe")}
    assert paths == {"livenessProbe": "/healthz", "readinessProbe": "/readyz", "startupProbe": "/healthz"}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert [path for path, mount in mounts.items() if not mount.get("readOnly")] == ["/data", "/tmp"]
    assert {volume["name"] for volume in pod["volumes"]} == {mount["name"] for mount in mounts.values()}
    assert pod["terminationGracePeriodSeconds"] > Settings().drain_timeout_s
    labels = documents["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        documents["Service"]["spec"]["selector"],
        documents["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_replicas_share_the_database_and_what_secrets_hold(chart: Path) -> None:
    values = {"loginKey": {"secret": "logins"}, "settings": {"max_body_bytes": 16777216, "usage": False}}
    pod = rendered(chart, **values)["Deployment"]["spec"]["template"]["spec"]
    environment = {each.pop("name"): each for each in pod["containers"][0]["env"]}
    assert {name.removeprefix("WAYGRAPH_").lower() for name in environment} - {"registry"} <= {
        each.name for each in fields(Settings)
    }
    assert environment["WAYGRAPH_REGISTRY"] == {"value": "neo4j+s://db.example.com"}
    assert environment["WAYGRAPH_MAX_BODY_BYTES"] == {"value": "16777216"}
    assert environment["WAYGRAPH_USAGE"] == {"value": "false"}
    secrets = {
        name: each["valueFrom"]["secretKeyRef"]["name"] for name, each in environment.items() if "value" not in each
    }
    assert secrets == {"WAYGRAPH_NEO4J_PASSWORD": "database", "WAYGRAPH_LOGIN_KEY": "logins"}
    assert {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o440}} in pod["volumes"]


def test_each_replica_follows_the_servers_that_are_named(chart: Path) -> None:
    servers = {"time": {"command": "uvx", "args": ["mcp-server-time"]}}
    documents = rendered(chart, mcpServers=servers, ingress={"enabled": True, "host": "agents.example.com"})
    assert json.loads(documents["ConfigMap"]["data"]["mcp.json"]) == {"mcpServers": servers}
    [container] = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "--watch=/config/mcp.json" in container["args"]
    assert documents["Ingress"]["spec"]["rules"][0]["host"] == "agents.example.com"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"apiKeys": {"secret": "keys"}}, "neo4j.url is needed"),
        ({"neo4j": NEEDED["neo4j"]}, "apiKeys.secret or settings.oidc_issuer is needed"),
        ({**NEEDED, "neo4j": {"url": "neo4j://a:secret@db"}}, "/neo4j/url"),
        ({**NEEDED, "ingress": {"enabled": True}}, "/ingress/host"),
        ({**NEEDED, "replicas": 3}, "replicas"),
        ({**NEEDED, "settings": {"neo4j_password": "secret"}}, "neo4j_password"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(chart: Path, values: Mapping[str, object], reason: str) -> None:
    done = helm(chart, "template", **values)
    assert done.returncode != 0
    assert reason in done.stderr


def test_the_values_are_those_of_the_schema_and_of_the_templates(chart: Path, root: Path) -> None:
    """Also without helm: each value that a template reads is there, and none is there for nothing."""
    values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(values, schema)
    assert set(values) == set(schema["properties"]) - {"global"}
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((chart / "templates").iterdir()))
    assert set(re.findall(r"\.Values\.(\w+)", text)) == set(values)
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert about["version"] == about["appVersion"] == project["version"]


def test_no_secret_stands_in_the_values(chart: Path) -> None:
    """Whoever may read a Deployment or a release could read it."""
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))["properties"]["settings"]
    secret = [each.name for each in fields(Settings) if not each.repr]
    assert "oidc_client_secret" in secret
    for name in secret:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({name: "x"}, schema)


def test_secret_settings_come_from_a_secret(chart: Path) -> None:
    [container] = rendered(chart, settingsSecret="more")["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "more"}}]


def test_keys_are_read_from_a_file_that_nobody_can_write(tmp_path: Path) -> None:
    """As a Secret is mounted: the folder can be written neither."""
    if not shutil.which("bwrap"):
        pytest.skip("bwrap is not installed")
    keys = KeyFile(tmp_path / "keys.json")
    _, text = keys.create("ops", ("route",), ())
    code = f"""if True:
        from pathlib import Path
        from waygraph.registry.access.api_keys import KeyFile
        print(KeyFile(Path({str(keys.path)!r})).list()[0].name)
    """
    folder = str(tmp_path)  # it may be below /dev
    sandbox = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", folder, folder]
    done = subprocess.run([*sandbox, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("ops\n", 0), done.stderr
    assert text.startswith("wg_")
