"""Lay out the files that a case's input refers to where its agent can read them."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from farm.agents.base import Session
from farm.errors import SessionError
from farm.model.messages import referenced_files


def copy_attachments(session: Session, target: Path) -> dict[str, Path]:
    """Copy the files that the input refers to: the originals are the same for all trials."""
    copies: dict[str, Path] = {}
    for name in referenced_files(session.case.input_messages):
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise SessionError("missing_file", f'file "{name}" lies outside the suite', retryable=False)
        copies[name] = target / name
        copies[name].parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(session.files / name, copies[name])
        except OSError as error:
            raise SessionError("missing_file", f'file "{name}": {error.strerror}', retryable=False) from error
    return copies
