"""A fleet on a real Redis with TLS and the users that the documentation describes."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from farm.queue.broker import Broker
from farm.queue.connection import LedgerError
from farm.queue.examining import examine_broker
from tests.e2e.fleet import Fleet, kill, open_fleet, start, wait_until

GUIDE = Path(__file__).parents[2] / "docs/running-a-fleet.md"
PASSWORD = "p/w:of@the#farm"
ENCODED = "p%2Fw%3Aof%40the%23farm"
KEY = "a key that is long enough, and shown to nobody"

# Like the documented user, but for Celery's keys; for its channels; for scripts.
_LESS: dict[str, Callable[[str], str]] = {
    "keyless": lambda rights: rights.replace("~_kombu.* ", ""),
    "deaf": lambda rights: rights.replace("&/0.celery.pidbox ", ""),
    "scriptless": lambda rights: rights.replace("+evalsha ", ""),
}


@dataclass(frozen=True)
class Secured:
    """A server that lets in who has a password, over TLS."""

    fleet: Fleet
    directory: Path
    port: int

    def url(self, user: str = "farm", password: str = ENCODED, ca: str = "ca.pem") -> str:
        return f"rediss://{user}:{password}@localhost:{self.port}/0?ssl_ca_certs={self.directory / ca}"

    def admin(self) -> redis.Redis:
        return redis.Redis.from_url(self.url("admin"))


def _documented_user() -> str:
    found = re.search(r"^user farm on >PASSWORD (.*)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def _make_certificates(directory: Path) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout")
    for name in ("ca", "other"):
        openssl(
            "req", "-x509", *key, f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN={name}"
        )
    openssl("req", *key, "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (directory / "extensions").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions", "-days", "2")
    openssl("x509", "-req", "-in", "server.csr", *signing, "-out", "server.pem")


@pytest.fixture
def secured() -> Iterator[Secured]:
    """A Redis of this machine; skip without it, but not in CI."""
    missing = [program for program in ("redis-server", "openssl") if shutil.which(program) is None]
    if missing:
        reason = f"not installed: {', '.join(missing)}; `make system` does it, as root on Debian"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with open_fleet(FARM_SIGNING_KEY=KEY) as fleet:
        directory = fleet.root / "redis"
        directory.mkdir()
        _make_certificates(directory)
        rights = _documented_user()
        users = {
            "farm": rights,
            **{name: less(rights) for name, less in _LESS.items()},
            "admin": "~* &* +@all",
        }
        lines = [f"user {name} on >{PASSWORD} {may}" for name, may in users.items()]
        (directory / "users.acl").write_text("\n".join(["user default off", *lines, ""]))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = start(
            *("redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1"),
            *("--tls-auth-clients", "no", "--tls-cert-file", "server.pem", "--tls-key-file", "server.key"),
            *("--tls-ca-cert-file", "ca.pem", "--aclfile", "users.acl", "--save", "", "--appendonly", "yes"),
            log=fleet.root / "redis.log",
            env=fleet.env,
            cwd=directory,
        )
        try:
            site = Secured(fleet, directory, port)
            wait_until(lambda: process.poll() is not None or _answers(site), "Redis answers")
            assert process.poll() is None, (fleet.root / "redis.log").read_text()
            fleet.env["FARM_BROKER_URL"] = site.url()
            yield site
        finally:
            fleet.end()  # before its server: workers say good-bye
            kill(process)


def _answers(site: Secured) -> bool:
    try:
        with site.admin() as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def test_a_fleet_works_over_tls_with_the_rights_that_are_documented(secured):
    fleet = secured.fleet
    fleet.write(
        "a.yaml",
        "name: a\nprompt: hi\nagent: scripted\nscript: [{say: hello}]\nassertions:\n  - {type: contains, value: hello}\n",
    )
    worker = fleet.start_farm("worker", "--agents", "scripted", "--concurrency", "2", log="worker.log")
    wait_until(lambda: worker.poll() is not None or fleet.broker.ledger.workers(), "the worker is ready")
    ran = fleet.farm("submit", "--wait", "-v", "--json", "a.yaml")
    assert ran.returncode == 0, ran.stderr + fleet.logs()
    run_id = json.loads(ran.stdout)["run_id"]
    status = fleet.farm("status", run_id)
    assert status.returncode == 0, status.stderr
    doctor = fleet.farm("doctor", "--json")
    assert doctor.returncode == 0, doctor.stdout
    findings = {finding["name"]: finding["said"] for finding in json.loads(doctor.stdout)}
    assert findings["broker"].startswith(f"rediss://farm:***@localhost:{secured.port}/0")
    assert findings["signing"] == f"on, with key {fleet.broker.ledger.workers()[0].key_id}"

    # A run that is queued waits for the server's disk, which Redis 7.0 does not let it.
    queued = fleet.farm("submit", "a.yaml")
    assert queued.returncode == 0, queued.stderr
    fleet.await_run(queued.stdout.strip())

    with secured.admin() as client:
        assert client.acl_log() == []  # nobody was denied anything
    said = "".join(each.stdout + each.stderr for each in (ran, status, doctor, queued)) + fleet.logs()
    assert "transport:   rediss://farm:**@localhost" in said
    for secret in (PASSWORD, ENCODED, KEY):
        assert secret not in said

    # A worker that may not do what Celery needs would try for ever, if it were not told so first.
    tried = {
        secured.url(password="wrong-secret"): ("status", "refuses the user or password"),
        secured.url(ca="other.pem"): ("status", "certificate is not trusted"),
        secured.url("keyless"): ("worker", "does not let the user of FARM_BROKER_URL"),
    }
    for url, (command, expected) in tried.items():
        refused = fleet.farm(command, env={"FARM_BROKER_URL": url, "FARM_AGENTS": "scripted"})
        assert refused.returncode == 3, refused.stderr
        assert expected in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
        assert not refused.stdout
        for secret in (PASSWORD, ENCODED, "wrong-secret"):
            assert secret not in refused.stderr
    for user in ("deaf", "scriptless"):
        with pytest.raises(LedgerError, match="does not let the user of FARM_BROKER_URL"):
            examine_broker(Broker(secured.url(user)))
