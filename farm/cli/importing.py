"""Import a module that is needed now, in less time."""

from __future__ import annotations

import gc
import importlib
import os
from typing import Any


def import_quickly(module: str) -> Any:
    """Import a module without looking for garbage, or for plug-ins of pydantic."""
    # Imports make many objects and no garbage: looking for it, now and at the exit, is a tenth of the time.
    # So is looking for pydantic's plug-ins, of which we have none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        gc.freeze()
        gc.enable()
