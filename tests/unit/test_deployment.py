"""What docker-compose.yml and deploy/ start is ours, and they agree with each other and with the farm."""

from __future__ import annotations

import importlib
import importlib.resources
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from farm.agents.registry import AGENTS
from farm.cli.main import COMMANDS
from farm.cli.options import Parser
from farm.queue import names
from tests.e2e.compose import image_environment, load_compose

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
VERSION = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
COMPOSE = load_compose()
MANIFESTS = {
    path.name: [each for each in yaml.safe_load_all(path.read_text()) if each]
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
}
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
OURS = re.compile(r"agent-farm/([a-z-]+):(.+)")

# Variables that others than the farm read.
FOREIGN = {"HOME", "TMPDIR", "PATH", "PYTHONUNBUFFERED", "ANTHROPIC_API_KEY"}


@dataclass(frozen=True)
class Started:
    """A program that one of the files starts."""

    where: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    stop_seconds: float | None = None
    image: str | None = None

    def option(self, name: str) -> str:
        """Give what an option is set to."""
        return self.command[self.command.index(name) + 1]


def _seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def _services() -> list[Started]:
    return [
        Started(
            f"docker-compose.yml: {name}",
            [str(word) for word in service["command"]],
            service.get("environment", {}),
            _seconds(service["stop_grace_period"]) if "stop_grace_period" in service else None,
            service["image"],
        )
        for name, service in COMPOSE["services"].items()
    ]


def pods() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{file}: {document['metadata']['name']}", document["spec"]["template"]["spec"])
        for file, documents in MANIFESTS.items()
        for document in documents
        if document["kind"] in ("Deployment", "StatefulSet")
    ]


def _containers() -> list[Started]:
    return [
        Started(
            where,
            container["args"],
            {each["name"]: each["value"] for each in container.get("env", ())},
            pod.get("terminationGracePeriodSeconds"),
            container["image"],
        )
        for where, pod in pods()
        for container in pod["containers"]
    ]


def unit(path: Path) -> dict[str, list[str]]:
    """Give what a unit's service section says; a key may come several times."""
    values: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        key, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            values.setdefault(key, []).append(value)
    return values


def _units() -> list[Started]:
    found = []
    for path in UNITS:
        values = unit(path)
        pairs = [pair for line in values.get("Environment", ()) for pair in shlex.split(line)]
        program, *arguments = shlex.split(values["ExecStart"][0].replace("%i", "1"))
        assert program == "/opt/farm/bin/farm"
        environment = dict(pair.split("=", 1) for pair in pairs)
        found.append(
            Started(path.name, ["farm", *arguments], environment, _seconds(values["TimeoutStopSec"][0]))
        )
    return found


STARTED = [*_services(), *_containers(), *_units()]
FARM = [each for each in STARTED if each.command[0] == "farm"]
WORKERS = [each for each in FARM if each.command[1] == "worker"]


def by_where(each: Started) -> str:
    return each.where


def test_all_that_a_fleet_needs_is_started_by_each_of_them():
    started = Counter((each.where.partition(":")[0], each.command[1]) for each in FARM)
    assert started["docker-compose.yml", "worker"] == 2
    assert started["workers.yaml", "worker"] == 2
    for place, commands in (
        ("docker-compose.yml", ("beat", "flower", "submit")),
        ("control.yaml", ("beat", "flower")),
    ):
        assert all(started[place, command] == 1 for command in commands)
    assert {each.command[1] for each in _units()} == {"worker", "beat", "flower"}


@pytest.mark.parametrize("started", FARM, ids=by_where)
def test_a_command_that_is_started_is_one_of_ours_with_options_that_it_has(started):
    _, name, *arguments = started.command
    assert name in COMMANDS
    module = importlib.import_module(f"farm.cli.{name}")
    parser = Parser(prog=f"farm {name}", description=None)
    module.add_arguments(parser)
    parsed = parser.parse_intermixed_args(arguments)
    if name == "worker" and parsed.agents is not None:
        assert set(parsed.agents.split(",")) <= set(AGENTS)


@pytest.mark.parametrize("started", STARTED, ids=by_where)
def test_every_variable_that_is_set_is_one_that_the_farm_reads(started):
    read = {value for name, value in vars(names).items() if name.endswith("_VARIABLE")}
    assert set(started.environment) | set(image_environment()) <= read | FOREIGN


@pytest.mark.parametrize("started", WORKERS, ids=by_where)
def test_a_worker_has_more_time_to_end_than_its_sessions(started):
    assert started.stop_seconds is not None
    assert started.stop_seconds >= float(started.option("--grace")) + 20


def test_a_worker_under_systemd_is_told_alone_and_its_sessions_are_killed_only_at_the_end():
    (path,) = [path for path in UNITS if "worker" in path.name]
    values = unit(path)
    assert (values["KillMode"], values["KillSignal"]) == (["mixed"], ["SIGTERM"])
    # These would leave bubblewrap nothing to work with.
    forbidding = {
        "RestrictNamespaces",
        "SystemCallFilter",
        "PrivateUsers",
        "ProtectKernelTunables",
        "ProtectProc",
    }
    assert not forbidding & set(values)


@pytest.mark.parametrize("started", [each for each in STARTED if each.image], ids=by_where)
def test_images_are_pinned_and_ours_are_of_this_version_and_can_be_built(started):
    assert started.image is not None
    tag = started.image.rpartition(":")[2]
    assert re.match(r"\d+\.\d+", tag), "neither latest nor only a major version"
    if ours := OURS.fullmatch(started.image):
        assert ours[2] == VERSION
        assert ours[1] in re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)


def test_the_dockerfile_starts_from_pinned_images_and_copies_what_is_there():
    stages: set[str] = set()
    for base, stage in re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.MULTILINE):
        assert base in stages or re.fullmatch(r"[a-z]+:\d+[\w.-]*-\S+", base), base
        stages.add(stage)
    shown = {
        line.removeprefix("!")
        for line in (REPOSITORY / ".dockerignore").read_text().splitlines()
        if line[:1] == "!"
    }
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        *sources, _ = [word for word in line.split() if not word.startswith("--")]
        for source in sources:
            assert (REPOSITORY / source).exists()
            assert source.partition("/")[0] in shown, f"{source} is in .dockerignore"
    assert "deploy/secrets" in (REPOSITORY / ".dockerignore").read_text().splitlines()
    assert "deploy/secrets/" in (REPOSITORY / ".gitignore").read_text().splitlines()


def test_the_claude_code_in_the_image_is_the_one_that_the_tests_run():
    (tested,) = re.findall(r"^CLAUDE_VERSION := (\S+)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert re.findall(r"^ARG CLAUDE_VERSION=(\S+)$", DOCKERFILE, re.MULTILINE) == [tested]


def test_nothing_runs_as_root():
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    for stage in stages:
        if users := re.findall(r"^USER (\S+)$", stage, re.MULTILINE):
            assert users[-1] == "10001:10001"
    for name in ("control", "worker", "claude-worker"):
        assert any(f"AS {name}\n" in stage and "USER 10001" in stage for stage in stages)
    for name, service in COMPOSE["services"].items():
        assert OURS.fullmatch(service["image"]) or service["user"] not in ("root", "0"), name
    assert all(pod["securityContext"]["runAsNonRoot"] for _, pod in pods())
    assert all(unit(path)["User"] == ["farm"] for path in UNITS)


def test_nothing_can_change_its_image_or_get_more_rights():
    for name, service in COMPOSE["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
    for where, pod in pods():
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"], where
            assert context["allowPrivilegeEscalation"] is False, where
            assert context["capabilities"] == {"drop": ["ALL"]}, where
    assert all(unit(path)["NoNewPrivileges"] == ["yes"] for path in UNITS)


def test_only_workers_with_agents_that_a_model_drives_get_what_bubblewrap_needs():
    relaxed = {
        name for name, each in COMPOSE["services"].items() if "seccomp=unconfined" in each["security_opt"]
    }
    assert relaxed == {"claude-worker"}
    unmasked = {
        where
        for where, pod in pods()
        for container in pod["containers"]
        if container["securityContext"].get("procMount") == "Unmasked"
    }
    assert unmasked == {"workers.yaml: claude-worker"}


def test_compose_and_kubernetes_start_the_same():
    commands = {each.where.partition(": ")[2]: each.command for each in _services()}
    for each in _containers():
        assert each.command == commands[each.where.partition(": ")[2]], each.where


def test_everything_is_limited_and_what_stays_is_started_again():
    for name, service in COMPOSE["services"].items():
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory", "pids"}, name
        assert service["restart"] == ("no" if name == "submit" else "unless-stopped")
    for where, pod in pods():
        assert all("memory" in each["resources"]["limits"] for each in pod["containers"]), where
    assert all("MemoryMax" in unit(path) for path in UNITS)


def test_health_is_asked_where_it_is_told():
    for name, service in COMPOSE["services"].items():
        command = service["command"]
        port = {"worker": "--metrics", "flower": "--port"}.get(command[1])
        if port is not None:
            told = command[command.index(port) + 1].rpartition(":")[2]
            assert f"http://127.0.0.1:{told}/" in service["healthcheck"]["test"][-1], name
    for where, pod in pods():
        (container,) = pod["containers"]
        ports = {each["name"]: str(each["containerPort"]) for each in container.get("ports", ())}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if "httpGet" in container.get(probe, {}):
                asked = ports[container[probe]["httpGet"]["port"]]
                assert any(word.rpartition(":")[2] == asked for word in container["args"]), where


def test_the_files_that_hold_secrets_are_where_they_are_looked_for(tmp_path):
    subprocess.run([DEPLOY / "make-secrets.sh", tmp_path / "secrets"], check=True, capture_output=True)
    made = {path.name for path in (tmp_path / "secrets").iterdir()}
    assert {Path(each["file"]).name for each in COMPOSE["secrets"].values()} == made
    for name, service in COMPOSE["services"].items():
        given = {
            each.get("target") if isinstance(each, dict) else f"/run/secrets/{each}"
            for each in service.get("secrets", ())
        }
        text = json.dumps([service["command"], service.get("environment"), service.get("healthcheck")])
        assert set(re.findall(r"/run/secrets/\w+", text)) <= given, name
    known = {
        document["metadata"]["name"]: set(document["stringData"])
        for document in MANIFESTS["secrets.example.yaml"]
    }
    assert set().union(*known.values()) - {"ANTHROPIC_API_KEY"} <= made
    for where, pod in pods():
        text = json.dumps(pod)
        mentioned = re.findall(r'"secret": {"(?:secretName|name)": "([\w-]+)"', text)
        assert mentioned, where
        given = set().union(*(known[name] for name in mentioned))
        assert set(re.findall(r"/run/secrets/(\w+)", text)) <= given, where


def test_secrets_are_made_once_and_only_their_owner_can_get_at_them(tmp_path):
    directory = tmp_path / "secrets"
    make = [DEPLOY / "make-secrets.sh", directory, "broker.internal:6380"]
    subprocess.run(make, check=True, capture_output=True, env={**os.environ, "ANTHROPIC_API_KEY": "a key"})
    first = {path.name: path.read_text() for path in directory.iterdir()}
    assert directory.stat().st_mode & 0o777 == 0o700
    password = first["redis_password"]
    assert re.fullmatch(r"[0-9a-f]{64}", password)
    assert first["broker_url"] == f"redis://farm:{password}@broker.internal:6380/0\n"
    assert password not in first["redis_users"]
    assert first["anthropic_api_key"] == "a key"
    assert len(set(first.values())) == len(first)
    subprocess.run(make, check=True, capture_output=True)
    assert {path.name: path.read_text() for path in directory.iterdir()} == first


def test_workers_are_scaled_by_queues_that_they_serve():
    agents = {
        each.where.partition(": ")[2]: each.option("--agents").split(",")
        for each in _containers()
        if each in WORKERS
    }
    scaled = [each for each in MANIFESTS["autoscaling.yaml"] if each["kind"] == "ScaledObject"]
    assert len(scaled) == 2
    for each in scaled:
        served = {names.agent_queue(kind) for kind in agents[each["spec"]["scaleTargetRef"]["name"]]}
        assert each["spec"]["minReplicaCount"] >= 1  # workers are also the janitors
        for trigger in each["spec"]["triggers"]:
            assert trigger["metadata"]["listName"] in served
    listed = MANIFESTS["kustomization.yaml"][0]["resources"]
    assert {*listed, "autoscaling.yaml", "secrets.example.yaml", "kustomization.yaml"} == set(MANIFESTS)


def test_what_can_be_set_in_the_compose_file_is_in_the_guide():
    guide = (DEPLOY / "README.md").read_text(encoding="utf-8")
    variables = set(re.findall(r"\$\{(\w+)", (REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8")))
    assert variables
    assert {name for name in variables if f"`{name}`" not in guide} == set()


def test_the_compose_file_keeps_to_the_specification():
    try:
        vendored = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    except ModuleNotFoundError:
        assert not os.environ.get("CI"), "check-jsonschema is not installed"
        pytest.skip("check-jsonschema, which brings the specification, is not installed")
    schema = json.loads((vendored / "compose-spec.json").read_text(encoding="utf-8"))
    file = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8"))
    assert [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(file)] == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path):
    program = Path(sys.executable)
    for path in UNITS:
        # It wants to see the program.
        text = path.read_text().replace("/opt/farm/bin/farm", str(program))
        (tmp_path / path.name.replace("@", "@1")).write_text(text)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
