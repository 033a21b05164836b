"""Bring what a run left into a directory, in the place of an earlier report and of nothing else."""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from farm.errors import OutputError, UsageError
from farm.model.transcript import LOG_NAMES
from farm.queue.archive import REPORT, TRANSCRIPTS
from farm.queue.blobs import BlobError, get_bytes
from farm.queue.broker import Broker
from farm.reporting.changes import COMPARISON_FILE, is_comparison_file
from farm.reporting.formats import FORMATS_BESIDE
from farm.reporting.json import is_report_file

_TRANSCRIPTS = "transcripts"  # the directory; TRANSCRIPTS is the list of them
_TRANSCRIPT = re.compile(rf"transcripts/[0-9]{{5,9}}\.(?:json|{'|'.join(map(re.escape, LOG_NAMES))})")


def fetch_report(broker: Broker, run_id: str, out: Path) -> Path:
    """Bring a run's report and transcripts into a directory; give the report's path."""

    def bring(directory: Path) -> None:
        with tempfile.TemporaryFile() as index:
            broker.archive.read(run_id, TRANSCRIPTS, index)
            index.seek(0)
            for line in index:
                name, _, blob_id = line.decode().rstrip("\n").partition("\t")
                if not _TRANSCRIPT.fullmatch(name):  # it comes from the broker or the store: no other path
                    raise BlobError(f"the list of transcripts of run {run_id} is corrupt")
                (directory / name).write_bytes(get_bytes(broker.blobs, blob_id))
        with (directory / REPORT).open("wb") as file:
            broker.archive.read(run_id, REPORT, file)

    try:
        return _replace_report(out, bring)
    except BlobError as error:
        raise BlobError(f"{error}; the run is kept: `farm report {run_id}` tries again") from None


def copy_report(kept: Path, out: Path) -> Path:
    """Copy a report, and the transcripts beside it, into a directory; give the copy's path."""

    def bring(directory: Path) -> None:
        shutil.copyfile(kept, directory / REPORT)
        if (kept.parent / _TRANSCRIPTS).is_dir():
            shutil.copytree(kept.parent / _TRANSCRIPTS, directory / _TRANSCRIPTS, dirs_exist_ok=True)

    return _replace_report(out, bring)


@dataclass(frozen=True)
class EarlierReport:
    """The report that a directory has, if any, before a run goes on that is to be reported there."""

    directory: Path
    identity: tuple[int, int] | None

    @classmethod
    def of(cls, directory: Path) -> EarlierReport:
        """Look whether there is one."""
        return cls(directory, _identity(directory / REPORT))

    def remove(self) -> None:
        """Remove it, lest a run that goes on be taken for it; not what a quick worker wrote since."""
        report = self.directory / REPORT
        try:
            if self.identity is not None and _identity(report) == self.identity:
                _remove_transcripts(self.directory, but=set())
                _remove_beside(self.directory)
                report.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{error.filename or report}: can't be removed: {error.strerror}") from None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def check_out(out: Path) -> EarlierReport:
    """Make the directory for a report, and refuse one that has another's; nothing in it is changed.

    Gives the report that is there, to be removed once it is sure that another will come.
    """
    _refuse_another(out)
    try:
        (out / _TRANSCRIPTS).mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise UsageError(f"{out}: can't be written to: {error.strerror}") from None
    return EarlierReport.of(out)


def _replace_report(out: Path, bring: Callable[[Path], None]) -> Path:
    """Put what is brought in the place of an earlier report, once all of it is there."""
    _refuse_another(out)
    try:
        (out / _TRANSCRIPTS).mkdir(parents=True, exist_ok=True)
        # Of its own: two may do this at once, who carries a run out and who watches it.
        with tempfile.TemporaryDirectory(prefix=".report-", dir=out) as name:
            new = Path(name)
            (new / _TRANSCRIPTS).mkdir()
            bring(new)
            transcripts = {path.name for path in (new / _TRANSCRIPTS).iterdir()}
            _remove_transcripts(out, but=transcripts)
            for transcript in transcripts:
                (new / _TRANSCRIPTS / transcript).replace(out / _TRANSCRIPTS / transcript)
            # If it is the same, another has brought it, and what lies beside it is of this report too.
            if not _is_same(new / REPORT, out / REPORT):
                _remove_beside(out)
                (new / REPORT).replace(out / REPORT)
    except OSError as error:
        raise OutputError(f"{error.filename or out}: can't be written: {error.strerror}") from None
    return out / REPORT


def _refuse_another(out: Path) -> None:
    report = out / REPORT
    if os.path.lexists(report) and not is_report_file(report):
        raise UsageError(f"{report} exists, and is no report of the farm; choose another --out")
    for path in (out / beside.file for beside in FORMATS_BESIDE):
        if os.path.lexists(path) and not report.exists():
            raise UsageError(f"{path} exists, and is no report of the farm; choose another --out")


def _is_same(new: Path, old: Path) -> bool:
    return old.is_file() and filecmp.cmp(new, old, shallow=False)


def _remove_beside(out: Path) -> None:
    """Remove what was made of an earlier report. What is not ours stays."""
    if not (out / REPORT).exists():
        return
    for beside in FORMATS_BESIDE:
        (out / beside.file).unlink(missing_ok=True)
    if is_comparison_file(out / COMPARISON_FILE):
        (out / COMPARISON_FILE).unlink(missing_ok=True)


def _remove_transcripts(out: Path, but: set[str]) -> None:
    """Remove those of an earlier report. What is not ours stays: `--out .` is easily said."""
    if not (out / REPORT).exists():
        return
    for old in (out / _TRANSCRIPTS).glob("*"):
        if _TRANSCRIPT.fullmatch(f"{_TRANSCRIPTS}/{old.name}") and old.name not in but:
            old.unlink(missing_ok=True)
