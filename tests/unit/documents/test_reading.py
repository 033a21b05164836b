"""Reading files whole: of every size up to the limit, and from whatever gives bytes."""

import os
from pathlib import Path

import pytest

from farm.documents.yaml import MAX_BYTES, read_bytes
from farm.errors import InputError

STEP = 64 * 1024


@pytest.mark.parametrize("size", [0, 1, STEP - 1, STEP, STEP + 1, 3 * STEP, MAX_BYTES])
def test_a_file_is_read_whole_whatever_its_size(tmp_path, size):
    path = tmp_path / "a.yaml"
    data = (b"0123456789abcde\n" * (size // 16 + 1))[:size]
    path.write_bytes(data)
    assert read_bytes(path, "a.yaml") == data


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no endless file here")
def test_an_endless_file_is_refused_and_not_read_to_its_end():
    with pytest.raises(InputError, match="is larger than 16 MiB; split it"):
        read_bytes(Path("/dev/zero"), "zero")
