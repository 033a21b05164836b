"""Turn FARM_BROKER_URL into a connection that outlives a restart of its server, and has clear errors."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

from farm.errors import FarmError, UsageError

DEFAULT_PATIENCE_SECONDS = 15.0

_SOCKETS = ("unix", "redis+socket")  # redis-py's name for it, and Celery's
_EXAMPLES = "redis://host:6379/0, rediss://user:password@host:6379/0 or unix:///path/to/socket?db=0"
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_HOW_TO_TRUST = "name the file of its authority in FARM_BROKER_URL: rediss://…?ssl_ca_certs=FILE"
_CERTIFICATES = {"CERT_NONE": "none", "CERT_OPTIONAL": "optional", "CERT_REQUIRED": "required"}


class LedgerError(FarmError):
    """The ledger's server can't be reached, or refuses us."""

    exit_code = 3


def connect(url: str, *, patience_seconds: float = DEFAULT_PATIENCE_SECONDS) -> redis.Redis:
    """Give a client, which connects at its first use, and tries again so long if the server is away."""
    address = _Address.parse(url)
    for option, value in parse_qsl(urlsplit(address.url).query):
        if option in _FILES and not os.path.exists(value):  # noqa: PTH110 — it raises nothing
            raise _wrong(url, f"there is no file {value} ({option})")
    try:
        client = redis.Redis.from_url(
            address.url,
            socket_connect_timeout=5,
            socket_timeout=15,
            health_check_interval=30,
            retry=_Patience(patience_seconds),
        )
        client.connection_pool.make_connection()  # connects to nothing, but finds fault with options
    except (TypeError, ValueError, redis.RedisError):
        # What it says may quote the password.
        raise _wrong(url, "some option after the question mark is unknown or wrong") from None
    return client


def broker_url(url: str) -> str:
    """Give the same address as Celery writes it."""
    return _Address.parse(url).celery_url


def shown(url: str) -> str:
    """Give a URL as it may be shown: without password, also where it is no proper URL."""
    # Up to the last "@": a password that was not encoded as it should may contain any character.
    hidden = re.sub(r"^((?:[a-z+]+://)?(?:[^:@/]*:)?).*@", r"\1***@", url, flags=re.DOTALL | re.IGNORECASE)
    return re.sub(r"(password=)[^&]*", r"\1***", hidden)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Let trouble with the server leave as a LedgerError of one sentence."""
    try:
        yield
    except (redis.AuthenticationError, redis.exceptions.AuthenticationWrongNumberOfArgsError) as error:
        raise LedgerError(f"the broker refuses the user or password of FARM_BROKER_URL: {error}") from None
    except (redis.ConnectionError, redis.TimeoutError) as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise LedgerError(f"the broker's certificate is not trusted: {error}; {_HOW_TO_TRUST}") from None
        raise LedgerError(f"the broker can't be reached (is FARM_BROKER_URL right?): {error}") from None
    except redis.RedisError as error:
        if isinstance(error, redis.exceptions.NoPermissionError) or "ACL failure" in str(error):
            message = f"the broker does not let the user of FARM_BROKER_URL do what the farm needs: {error}"
            message += "; docs/running-a-fleet.md has the rights of such a user"
            raise LedgerError(message) from None
        raise LedgerError(f"the broker says: {error}") from None


class _Patience(Retry):
    """Try again for some seconds; but not what can't get better, such as a wrong password."""

    def __init__(self, seconds: float) -> None:
        super().__init__(ExponentialWithJitterBackoff(base=0.05, cap=1.0), retries=-1)
        self._seconds = seconds

    def call_with_retry(
        self,
        do: Callable[[], Any],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> Any:
        # By the clock, not by a count: redis-py tries again within what it tries again.
        deadline = time.monotonic() + self._seconds

        def may_get_better(error: Exception) -> bool:
            refused = isinstance(error, (redis.AuthenticationError, redis.exceptions.AuthorizationError))
            hopeless = refused or "CERTIFICATE_VERIFY_FAILED" in str(error)
            asked = is_retryable is None or is_retryable(error)
            return not hopeless and asked and time.monotonic() < deadline

        return super().call_with_retry(do, fail, may_get_better, with_failure_count)


@dataclass(frozen=True)
class _Address:
    """Where a server is, in both spellings."""

    url: str
    celery_url: str

    @staticmethod
    def parse(url: str) -> _Address:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise _wrong(url, "its host or port can't be read") from None
        options = dict(parse_qsl(parts.query))
        if "ssl_cert_reqs" in options:
            options["ssl_cert_reqs"] = _CERTIFICATES.get(options["ssl_cert_reqs"], options["ssl_cert_reqs"])
        if "password" in options or "username" in options:
            raise _wrong(url, "user and password stand before the host")
        login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        database = options.pop("virtual_host", None) or options.pop("db", None)
        if parts.scheme in _SOCKETS:
            if host or port or not parts.path.strip("/"):
                raise _wrong(url, "a socket has a path and no host: there are three slashes")
            number = _database(url, database)
            return _Address(
                f"unix://{login}{parts.path}?{urlencode({'db': number, **options})}",
                f"redis+socket://{login}{parts.path}?{urlencode({'virtual_host': number})}",
            )
        if parts.scheme not in ("redis", "rediss"):
            raise _wrong(url, "it does not begin with a scheme that we know")
        number = _database(url, database or parts.path.strip("/"))
        place = f"{parts.scheme}://{parts.netloc}/{number}"
        # Celery does not check the server's certificate unless it is told to.
        secure = {"ssl_cert_reqs": "required"} if parts.scheme == "rediss" else {}
        certificates = {name: value for name, value in options.items() if name.startswith("ssl_")}
        return _Address(_with(place, options), _with(place, {**secure, **certificates}))


def _database(url: str, number: str | None) -> int:
    if number and not number.isdecimal():
        raise _wrong(url, "its database is no number")
    return int(number or 0)


def _with(place: str, options: dict[str, str]) -> str:
    return f"{place}?{urlencode(options)}" if options else place


def _wrong(url: str, why: str) -> UsageError:
    return UsageError(f"FARM_BROKER_URL={shown(url)}: {why}; write it like {_EXAMPLES}")
