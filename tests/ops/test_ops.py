"""What `ops/` states is true of the code: commands, options, ports, paths, variables, probes, users, extras.

Tools that are on the machine check the files too: hadolint, helm and systemd-analyze (`HEADGATE_TOOLS` names one more
folder to look for them).
"""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main
import yaml

import headgate
from headgate.cli.commands import app
from headgate.service.config import OPTIONS, ServiceConfig
from headgate.service.http.app import create_app
from headgate.service.http.edge import PUBLIC
from headgate.service.process import TOKEN_VARIABLE

ROOT = Path(__file__).parents[2]
OPS = ROOT / "ops"
CONTAINER, COMPOSE = OPS / "container" / "Containerfile", OPS / "compose" / "compose.yaml"
UNIT, CHART = OPS / "systemd" / "headgate@.service", OPS / "helm" / "headgate"
SERVE = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
FLAGS = {flag: option for option in SERVE.params for flag in [*option.opts, *option.secondary_opts]}
PORT = next(option.default for option in SERVE.params if option.name == "port")
USER = 10001
GIVEN = {
    "registry.url": "postgresql://headgate@db/headgate",
    "registry.passwordSecret.name": "db",
    "adminToken.value": "0123456789" * 3,
}


def tool(name) -> str:
    found = shutil.which(
        name, path=os.pathsep.join([os.environ.get("HEADGATE_TOOLS", ""), os.environ["PATH"]])
    )
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def options_of(words) -> dict[str, str]:
    """The options of `headgate serve`, if the command line has them all."""
    words = list(words)
    assert words.pop(0) == "serve"
    given = {}
    while words:
        flag, equals, value = words.pop(0).partition("=")
        assert flag in FLAGS, f"headgate serve has no {flag}"
        if FLAGS[flag].is_flag:
            assert not equals
        elif not equals:
            value = words.pop(0)
        given[flag] = value
    return given


def instructions():
    """The instructions of the container file: (name, rest)."""
    text = re.sub(r"(?m)^\s*#.*\n", "", CONTAINER.read_text()).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def test_the_container_runs_the_service_as_nobody_special() -> None:
    by_name: dict[str, list[str]] = {}
    for name, rest in instructions():
        by_name.setdefault(name, []).append(rest)
    assert json.loads(by_name["ENTRYPOINT"][0]) == ["headgate"]
    options = options_of(json.loads(by_name["CMD"][0]))
    assert (options["--folder"], options["--host"], int(options["--port"])) == ("/data", "0.0.0.0", PORT)
    assert "--standby" in options
    assert by_name["EXPOSE"] == [str(PORT)]
    assert json.loads(by_name["VOLUME"][0]) == ["/data"]
    assert by_name["USER"] == [f"{USER}:{USER}"]
    assert f"--uid {USER}" in " ".join(by_name["RUN"])
    (health,) = by_name["HEALTHCHECK"]
    assert "HEADGATE_HEALTH_URL" in health
    assert f"HEADGATE_HEALTH_URL=http://127.0.0.1:{PORT}/health" in " ".join(by_name["ENV"])
    for rest in by_name["COPY"]:
        *sources, _ = [word for word in rest.split() if not word.startswith("--")]
        if "--from" not in rest:
            assert all((ROOT / source).exists() for source in sources), sources


def test_the_container_installs_extras_that_exist_and_what_the_service_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"ARG EXTRAS=([\w,]+)", CONTAINER.read_text())
    assert ".[${EXTRAS}]" in CONTAINER.read_text()
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert {"service", "spark", "postgres"} <= set(extras.split(","))
    (version,) = set(re.findall(r"FROM python:(\d+\.\d+)", CONTAINER.read_text()))
    least = project["requires-python"].removeprefix(">=")
    assert tuple(map(int, version.split("."))) >= tuple(map(int, least.split(".")))


def test_compose_runs_a_leader_and_a_standby() -> None:
    body = yaml.safe_load(COMPOSE.read_text())
    members = [one for one in body["services"].values() if one["image"] == "headgate"]
    assert len(members) == 2
    for member in members:
        options = options_of(member["command"])
        assert "--standby" in options
        assert options["--registry"].startswith("postgresql://")
        assert "--state" not in options, "the state is in the shared folder"
        assert member["volumes"] == [f"data:{options['--folder']}"]
        (port,) = member["ports"]
        assert port.endswith(f":{options['--port']}")
        assert port.startswith("127.0.0.1:")
        assert TOKEN_VARIABLE in member["environment"]
        assert member["depends_on"]["db"]["condition"] == "service_healthy"
        assert int(member["stop_grace_period"].removesuffix("s")) > float(options["--drain-s"])
        build = member["build"]
        assert (COMPOSE.parent / build["context"]).resolve() == ROOT
        assert ROOT / build["dockerfile"] == CONTAINER
    assert "healthcheck" in body["services"]["db"]
    used = {volume.partition(":")[0] for one in body["services"].values() for volume in one["volumes"]}
    assert used == set(body["volumes"])


def unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=False, interpolation=None, delimiters=["="])
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read(UNIT)
    return parsed


def test_the_unit_starts_the_service_and_lets_it_drain() -> None:
    section = unit()["Service"]
    command, *words = shlex.split(section["ExecStart"])
    assert Path(command).name == "headgate"
    options = options_of(words)
    assert options["--port"] == "%i"
    assert "--standby" in options
    assert options["--folder"] == f"/var/lib/{section['StateDirectory']}" == section["WorkingDirectory"]
    assert section["Type"] == "notify"
    assert section["KillMode"] == "mixed", "Spark's JVM may not be told to stop while the service drains"
    assert section["KillSignal"] == "SIGTERM"
    assert float(section["TimeoutStopSec"]) > float(options["--drain-s"])
    assert section["User"] == "headgate"


def test_systemd_accepts_the_unit(tmp_path) -> None:
    text = UNIT.read_text().replace("/opt/headgate/bin/headgate", sys.executable)
    text = re.sub(r"(?m)^(User|Group)=.*$", r"\1=root", text)
    path = tmp_path / "headgate@8620.service"
    path.write_text(text)
    done = subprocess.run(
        [tool("systemd-analyze"), "verify", "--man=no", str(path)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.strip()) == (0, ""), done.stderr


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run([tool("hadolint"), str(CONTAINER)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


# -- the chart


def helm(*words, values=GIVEN) -> str:
    sets = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    done = subprocess.run([tool("helm"), *words, str(CHART), *sets], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(**values) -> dict[str, list[dict]]:
    text = helm("template", "x", "--kube-version", "1.31.0", values={**GIVEN, **values})
    kinds: dict[str, list[dict]] = {}
    for body in yaml.safe_load_all(text):
        if body:
            kinds.setdefault(body["kind"], []).append(body)
    return kinds


def test_the_values_of_the_chart_fit_the_code() -> None:
    """Without helm: what the templates and values say, as text."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == headgate.__version__
    assert values["service"]["port"] == PORT
    config = tomllib.loads(values["config"])
    assert set(config.get("service", {})) <= OPTIONS
    defaults = {name: option.default for name, option in ServiceConfig.__dataclass_fields__.items()}
    assert (values["leaseSeconds"], values["drainSeconds"]) == (defaults["lease_s"], defaults["drain_s"])
    text = (CHART / "templates" / "statefulset.yaml").read_text()
    args = re.findall(r"(?m)^\s+- (--[\w-]+)", text)
    assert args
    assert set(args) <= set(FLAGS)
    assert set(re.findall(r"path: (/\w+)", text)) <= PUBLIC
    assert TOKEN_VARIABLE in text
    assert set(re.findall(r"runAs(?:User|Group): (\d+)", text)) == {str(USER)}


def test_the_chart_passes_lint() -> None:
    helm("lint", "--strict")


@pytest.mark.parametrize("state", ["/shared/state", "s3://bucket/service"])
def test_the_chart_renders_a_leader_with_standbys(state) -> None:
    kinds = rendered(state=state)
    (stateful,) = kinds["StatefulSet"]
    pod = stateful["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    options = options_of(container["args"])
    assert options["--state"] == state
    assert options["--push"] == ("" if "://" in state else "/shared/push")
    assert stateful["spec"]["podManagementPolicy"] == "Parallel", "a standby is never ready"
    assert pod["terminationGracePeriodSeconds"] > float(options["--drain-s"])
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    assert {container["ports"][0]["containerPort"], int(options["--port"])} == {PORT}
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts.values()) == {volume["name"] for volume in pod["volumes"]}
    assert {options["--folder"], "/tmp", "/dev/shm"} <= set(mounts)
    assert ("/shared" in mounts) == ("://" not in state) == ("PersistentVolumeClaim" in kinds)
    variables = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in container["env"]}
    (secret,) = kinds["Secret"]
    reference = variables[TOKEN_VARIABLE]
    assert secret["metadata"]["name"] == reference["name"]
    assert reference["key"] in secret["stringData"]
    assert "PGPASSWORD" in variables
    (config,) = kinds["ConfigMap"]
    (name,) = config["data"]
    assert options["--config"] == f"{next(path for path, of in mounts.items() if of == 'config')}/{name}"
    tomllib.loads(config["data"][name])
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    for service in kinds["Service"]:
        assert service["spec"]["selector"].items() <= labels.items()
    assert stateful["spec"]["serviceName"] in {service["metadata"]["name"] for service in kinds["Service"]}
    (budget,) = kinds["PodDisruptionBudget"]
    assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_probes_and_health_checks_are_routes_that_need_no_token() -> None:
    paths = create_app(cast(Any, None)).openapi()["paths"]
    for path in ("/health", "/ready"):
        assert path in paths
        assert path in PUBLIC


def test_every_file_of_ops_is_looked_at() -> None:
    checked = {
        CONTAINER,
        COMPOSE,
        UNIT,
        *CHART.rglob("*.yaml"),
        *CHART.rglob("*.tpl"),
        *CHART.rglob("NOTES.txt"),
    }
    others = {path for path in OPS.rglob("*") if path.is_file()} - checked
    assert {path.parent.name for path in others} == {"grafana", "prometheus"}
