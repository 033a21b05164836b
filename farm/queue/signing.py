"""Sign what lies on the broker, so that only who has the key can say what workers run and what came of it.

A signature says what a row is, whose it is and when it was signed: a row of another run, case or trial is
refused like a forged one. Without a key nothing is signed and nothing is refused; what others signed can be
read all the same, but a worker does not carry it out.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from farm.errors import FarmError, UsageError
from farm.queue.names import KEY_DAYS_VARIABLE, KEY_FILE_VARIABLE, KEY_VARIABLE

DEFAULT_MAX_AGE_MS = 7 * 24 * 3600 * 1000

_LEAST_CHARACTERS = 32
# No row begins so by itself: plans are zstd frames, records JSON or "blob:", names of blobs hexadecimal.
_MARK = b"signed:"
_HOW = f"make one with `openssl rand -hex 32`, and give all submitters and workers the same as {KEY_VARIABLE}"


class SignatureError(FarmError):
    """A row is not what somebody with our key has signed; `kind` names the cause for reports."""

    exit_code = 3

    def __init__(self, message: str, *, kind: str = "unsigned", elsewhere: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.elsewhere = elsewhere  # another worker may have the right key


@dataclass(frozen=True)
class Signer:
    """Signs rows and checks them; without a key it does neither."""

    key: bytes = field(default=b"", repr=False)
    max_age_ms: int = DEFAULT_MAX_AGE_MS  # of what is to be carried out

    @cached_property
    def key_id(self) -> str:
        """What tells this key from another, and does not betray it; empty without one."""
        return hmac.digest(self.key, b"farm: the name of this key", "sha256").hex()[:12] if self.key else ""

    def sign(self, row: bytes, what: str, *names: str) -> bytes:
        """Put a signature before a row: what it is, and of which run, case and trial."""
        if not self.key:
            return row
        head = f"{self.key_id}:{_now_ms()}".encode()
        return b"%s%s:%s:%s" % (_MARK, head, self._code(head, row, what, names), row)

    def open(self, row: bytes, what: str, *names: str) -> bytes:
        """Give a row without its signature; SignatureError if that is not ours, or of something else."""
        if not self.key:
            return unsigned(row)
        return self._open(row, what, names)[1]

    def open_to_carry_out(self, row: bytes, what: str, *names: str) -> bytes:
        """The same for what makes a worker run commands: not too old, and not unchecked for lack of a key."""
        if not self.key:
            if row.startswith(_MARK):
                raise SignatureError(
                    f"the {what} is signed, and this worker has no {KEY_VARIABLE}: "
                    "give it the one that its submitters have",
                    elsewhere=True,
                )
            return row
        signed_at_ms, opened = self._open(row, what, names)
        if abs(_now_ms() - signed_at_ms) > self.max_age_ms:
            days = self.max_age_ms / 86_400_000
            raise SignatureError(
                f"the {what} was signed more than {days:g} days ago ({KEY_DAYS_VARIABLE}): "
                "`farm retry RUN --errored` by somebody who has the key signs it anew",
                kind="expired",
            )
        return opened

    def lacks_key_of(self, row: bytes) -> bool:
        """Say whether a row claims to be signed with another key than ours."""
        return row.startswith(_MARK) and not row.startswith(b"%s%s:" % (_MARK, self.key_id.encode() or b"-"))

    def _open(self, row: bytes, what: str, names: tuple[str, ...]) -> tuple[int, bytes]:
        if not row.startswith(_MARK):
            raise SignatureError(
                f"the {what} is not signed: who wrote it has no {KEY_VARIABLE}, or no right to write it"
            )
        try:
            key_id, signed_at, code, opened = row[len(_MARK) :].split(b":", 3)
            signed_at_ms = int(signed_at)
        except ValueError:
            raise SignatureError(f"the {what} has a signature that can't be read") from None
        if not hmac.compare_digest(self._code(key_id + b":" + signed_at, opened, what, names), code):
            if key_id != self.key_id.encode():
                raise SignatureError(
                    f"the {what} is signed with another {KEY_VARIABLE} than the one here", elsewhere=True
                )
            raise SignatureError(f"the {what} has a wrong signature: it was changed, or is of another run")
        return signed_at_ms, opened

    def _code(self, head: bytes, row: bytes, what: str, names: tuple[str, ...]) -> bytes:
        # Each part with its length: no two lists of parts may come to the same bytes.
        parts = (b"farm/1", head, *(name.encode(errors="surrogatepass") for name in (what, *names)), row)
        text = b"".join(b"%d:%s" % (len(part), part) for part in parts)
        return hmac.digest(self.key, text, "sha256").hex().encode()


def unsigned(row: bytes) -> bytes:
    """Give a row without its signature, whosever that is: for what is only looked at."""
    return row[len(_MARK) :].split(b":", 3)[-1] if row.startswith(_MARK) else row


def digest_of(names: list[str]) -> bytes:
    """Give a short text that stands for a set of names."""
    digest = hashlib.sha256()
    for name in sorted(names):
        encoded = name.encode(errors="surrogatepass")
        digest.update(b"%d:%s" % (len(encoded), encoded))
    return digest.hexdigest().encode()


def signer_from_environment(environment: Mapping[str, str] = os.environ) -> Signer:
    """Give the signer that the environment asks for: FARM_SIGNING_KEY, or the file that holds it."""
    text, variable = environment.get(KEY_VARIABLE), KEY_VARIABLE
    if file := environment.get(KEY_FILE_VARIABLE):
        if text:
            raise UsageError(f"{KEY_VARIABLE} and {KEY_FILE_VARIABLE} are both set; one is enough")
        variable = KEY_FILE_VARIABLE
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UsageError(f"{KEY_FILE_VARIABLE}={file}: can't be read: {why}") from None
    elif text is None:
        return Signer()
    key = (text or "").strip().encode()
    if len(key) < _LEAST_CHARACTERS:
        told = f"{variable}: a key has at least {_LEAST_CHARACTERS} characters, this one {len(key)}; {_HOW}"
        raise UsageError(told)
    return Signer(key, _max_age_ms(environment.get(KEY_DAYS_VARIABLE)))


def _max_age_ms(days: str | None) -> int:
    if not days:
        return DEFAULT_MAX_AGE_MS
    try:
        value = float(days)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3650:
        raise UsageError(f'{KEY_DAYS_VARIABLE} is "{days}"; it must be a number of days up to 3650')
    return round(value * 24 * 3600 * 1000)


def _now_ms() -> int:
    # Not the broker's clock: who can write to the broker may be whom we guard against.
    return time.time_ns() // 1_000_000
