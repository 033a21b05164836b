"""How the broker is found, waited for, and complained about."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
import redis
from kombu.connection import Connection
from redis.backoff import NoBackoff
from redis.retry import Retry

from farm.errors import UsageError
from farm.queue.connection import LedgerError, broker_url, connect, shown
from farm.queue.ledger import Ledger
from farm.queue.server import Server, _program, private_server
from tests.integration.ledger_builders import claimed, jobs


@pytest.mark.parametrize(
    ("url", "celery"),
    [
        ("redis://host", "redis://host/0"),
        ("redis://user:p%40ss@host:7000/2", "redis://user:p%40ss@host:7000/2"),
        ("redis://host?db=3&socket_timeout=2", "redis://host/3"),
        ("redis://[::1]:7000/1", "redis://[::1]:7000/1"),
        ("rediss://host/1", "rediss://host/1?ssl_cert_reqs=required"),
        ("rediss://:p@host?ssl_cert_reqs=CERT_NONE", "rediss://:p@host/0?ssl_cert_reqs=none"),
        (
            "rediss://host?ssl_ca_certs=/dev/null",
            "rediss://host/0?ssl_cert_reqs=required&ssl_ca_certs=%2Fdev%2Fnull",
        ),
        ("unix:///tmp/s?db=2", "redis+socket:///tmp/s?virtual_host=2"),
        ("unix://user:p@/tmp/s", "redis+socket://user:p@/tmp/s?virtual_host=0"),
        ("redis+socket:///tmp/s?virtual_host=2", "redis+socket:///tmp/s?virtual_host=2"),
    ],
)
def test_an_address_in_celerys_words(url, celery):
    assert broker_url(url) == celery
    assert broker_url(celery) == celery
    connect(url).close()


@pytest.fixture
def guarded() -> Iterator[Server]:
    """A server with users of different rights, each with the password `p/w`."""
    with private_server() as server, redis.Redis.from_url(server.url) as client:
        for user, rights in (
            ("any", "~* +@all"),
            ("narrow", "~x:* +@all"),
            ("mute", "~* -@all +client +hello"),
        ):
            client.execute_command("ACL", "SETUSER", user, "on", ">p/w", *rights.split())
        yield server


@pytest.mark.parametrize("database", [0, 2])
@pytest.mark.parametrize("login", ["", "any:p%2Fw@"])
def test_both_spellings_lead_to_the_same_database(guarded, login, database):
    for place in ("unix://{}{}?db={}", "redis+socket://{}{}?virtual_host={}"):
        url = place.format(login, guarded.socket, database)
        with connect(url) as client, Connection(broker_url(url)) as celery:
            assert client.client_info()["db"] == database
            assert client.client_info()["user"] == ("any" if login else "default")
            celery.default_channel.client.set("farm:probe", url)
            assert client.get("farm:probe") == url.encode()


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "localhost:6379",
        "amqp://user:secret@host",
        "http://user:secret@host",
        "secret@host",
        "redis://user:sec/ret@host:6379",
        "redis://:secret@host:port",
        "redis://:secret@host/database",
        "redis://:secret@host?db=x",
        "redis://:secret@host?nonsense=1",
        "redis://host?password=secret",
        "rediss://:secret@host?ssl_cert_reqs=perhaps",
        "rediss://:secret@host?ssl_ca_certs=/nonexistent/ca.pem",
        "unix://:secret@relative/path",
        "unix://",
    ],
)
def test_a_wrong_address_is_refused_with_examples_and_without_the_password(wrong):
    with pytest.raises(UsageError) as caught:
        connect(wrong)
    message = str(caught.value)
    assert "FARM_BROKER_URL" in message
    assert "redis://host:6379/0" in message
    assert "secret" not in message
    assert "sec/ret" not in message


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://user:secret@host", "redis://user:***@host"),
        ("redis://:s@cr/et@host", "redis://:***@host"),
        ("unix:///tmp/s?password=secret&db=1", "unix:///tmp/s?password=***&db=1"),
    ],
)
def test_a_password_is_never_shown(url, safe):
    assert shown(url) == safe


def test_a_server_that_is_down_is_one_clear_error(tmp_path, run_id):
    with (
        connect(f"unix://{tmp_path}/nothing", patience_seconds=0.1) as nobody,
        pytest.raises(LedgerError, match="the broker can't be reached") as caught,
    ):
        Ledger(nobody).status(run_id)
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


def test_a_password_that_is_refused_is_one_clear_error_at_once(run_id):
    with private_server("--requirepass", "secret") as server:
        for login in ("", ":wrong@", "nobody:secret@"):
            with (
                connect(f"unix://{login}{server.socket}", patience_seconds=3600) as client,
                pytest.raises(LedgerError, match="refuses the user or password"),
            ):
                Ledger(client).status(run_id)
        with connect(f"unix://:secret@{server.socket}") as client:
            assert Ledger(client).status(run_id) is None


@pytest.mark.parametrize("user", ["narrow", "mute"])
def test_what_an_acl_denies_is_one_clear_error(guarded, run_id, user):
    with connect(f"unix://{user}:p%2Fw@{guarded.socket}", patience_seconds=3600) as client:
        ledger = Ledger(client)
        with pytest.raises(LedgerError, match="does not let the user of FARM_BROKER_URL") as caught:
            ledger.status(run_id)
        assert caught.value.exit_code == 3
        with pytest.raises(LedgerError, match="does not let the user of FARM_BROKER_URL"):
            ledger.claim(jobs(run_id, 1)[0])


def test_a_restart_of_the_server_is_survived(tmp_path, run_id):
    socket = tmp_path / "s"
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        options = ("--port", "0", "--unixsocket", str(socket), "--dir", str(tmp_path), "--appendonly", "yes")
        started.append(
            subprocess.Popen(
                [str(_program()), *options, "--appendfsync", "always"], stdout=subprocess.DEVNULL
            )
        )

    def start_later() -> None:
        time.sleep(0.5)
        start()

    try:
        start()
        with connect(f"unix://{socket}", patience_seconds=60) as client:
            ledger = Ledger(client)
            (job,) = jobs(run_id, 1)
            ledger.create_run(run_id, [job])
            claim = claimed(ledger, job)
            started[0].kill()
            started[0].wait()
            restart = threading.Thread(target=start_later)
            restart.start()
            assert ledger.renew_all({claim: "still here"}) == {claim: "held"}
            restart.join()
            assert ledger.complete(claim, b"x") == "last"
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_step_asked_of_a_client_of_ones_own_has_clear_errors_too(tmp_path, run_id):
    with (
        redis.Redis(unix_socket_path=str(tmp_path / "nothing"), retry=Retry(NoBackoff(), 0)) as nobody,
        pytest.raises(LedgerError, match="the broker can't be reached"),
    ):
        list(Ledger(nobody).results(run_id))
