"""Compress and decompress small things quickly: making zstd's tables takes longer than filling them."""

from __future__ import annotations

import threading

import zstandard


class _Tables(threading.local):
    """A compressor and a decompressor for each thread: they can't be shared."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=3)
        self.decompressor = zstandard.ZstdDecompressor()


_tables = _Tables()


def compress(data: bytes) -> bytes:
    """Compress what fits in memory."""
    return _tables.compressor.compress(data)


def decompress(data: bytes, *, max_bytes: int) -> bytes:
    """Undo it; zstandard.ZstdError if it is not what `compress` gave, or is larger."""
    if zstandard.frame_content_size(data) > max_bytes:
        raise zstandard.ZstdError(f"it is larger than {max_bytes} bytes")
    return _tables.decompressor.decompress(data, max_output_size=max_bytes)
