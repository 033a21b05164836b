import hashlib
import io
import os
import random
import shutil
import stat
import tarfile
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farm.errors import FarmError
from farm.sessions import bundle as bundle_module
from farm.sessions.bundle import build_bundle
from farm.sessions.source_tree import copy_tree, list_tree
from farm.sessions.unpacking import CorruptBundleError, UnpackLimits, unpack_bundle
from tests.unit.sessions.trees import git, write


@pytest.fixture(autouse=True)
def _temporary_directory(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def id_of(source: Path, **options) -> str:
    with build_bundle(source, **options) as bundle:
        return bundle.id


def names_in(source: Path, **options) -> set[str]:
    """Build, unpack, and list the files that came out."""
    with tempfile.TemporaryDirectory() as scratch, build_bundle(source, **options) as bundle:
        unpack_bundle(bundle.path, Path(scratch, "out"), expected_id=bundle.id)
        return {name for name, (kind, _) in contents(Path(scratch, "out")).items() if kind != "directory"}


def contents(directory: Path) -> dict[str, tuple[str, object]]:
    """Everything about a tree but its times."""
    found: dict[str, tuple[str, object]] = {}
    for path in directory.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        name = str(path.relative_to(directory))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("directory", mode)
        else:
            found[name] = ("file", (mode, path.read_bytes()))
    return found


def make_project(directory: Path, *, backwards: bool = False) -> None:
    names = ["a", "b/c", "b/d/e", "run.sh", "n" * 120 + "/" + "m" * 90, "grün", "z"]
    write(directory, *(reversed(names) if backwards else names))
    (directory / "run.sh").chmod(0o755)
    Path(os.fsdecode(os.fsencode(directory) + b"/bad-\xff")).write_text("x")
    (directory / "link").symlink_to("b/c")
    (directory / "empty").mkdir()


def test_the_id_of_a_known_tree_never_changes(source):
    # If this fails, every cache and store of every user is about to be filled again.
    make_project(source)
    assert id_of(source) == "73cdcd0bb40afd98ca6bc81983357cc43aaa709c82a5799cf8b0b00be0347750"


def test_times_permissions_and_order_do_not_matter(source, tmp_path):
    make_project(source)
    other = tmp_path / "other"
    other.mkdir()
    before = os.umask(0o077)
    try:
        make_project(other, backwards=True)
        (other / "run.sh").chmod(0o700)
        os.utime(other / "a", (1, 1))
        with build_bundle(source) as one, build_bundle(other) as two:
            assert one.id == two.id
            assert one.path.read_bytes() == two.path.read_bytes()
    finally:
        os.umask(before)


def test_the_order_in_which_files_are_listed_does_not_matter(source, monkeypatch):
    make_project(source)
    expected = id_of(source)
    for seed in range(3):
        shuffle = random.Random(seed).shuffle

        def shuffled(*args, shuffle=shuffle, **options):
            entries = list(list_tree(*args, **options))
            shuffle(entries)
            return entries

        monkeypatch.setattr(bundle_module, "list_tree", shuffled)
        assert id_of(source) == expected


def test_two_clones_are_the_same_bundle(source, tmp_path):
    git(source, "init", "-q")
    write(source, "a", "sub/b")
    (source / "link").symlink_to("sub/b")
    git(source, "add", ".")
    git(source, "commit", "-qm", "first")
    for clone in ("one", "two/deeper"):
        git(tmp_path, "clone", "-q", str(source), str(tmp_path / clone))
    assert id_of(source) == id_of(tmp_path / "one") == id_of(tmp_path / "two/deeper")


def test_a_level_of_compression_is_not_part_of_the_id(source, monkeypatch):
    make_project(source)
    expected = id_of(source)
    monkeypatch.setattr(bundle_module, "_COMPRESSION_LEVEL", 7)
    assert id_of(source) == expected


@pytest.mark.parametrize("change", ["content", "name", "executable", "link", "empty directory"])
def test_everything_else_matters(source, change):
    make_project(source)
    before = id_of(source)
    if change == "content":
        (source / "a").write_text("b")
    elif change == "name":
        (source / "a").rename(source / "a2")
    elif change == "executable":
        (source / "a").chmod(0o755)
    elif change == "link":
        (source / "link").unlink()
        (source / "link").symlink_to("a")
    else:
        (source / "empty").rmdir()
    assert id_of(source) != before


def test_other_tools_can_read_a_bundle(source):
    make_project(source)
    with build_bundle(source) as bundle:
        plain = zstandard.ZstdDecompressor().stream_reader(bundle.path.read_bytes()).read()
    assert hashlib.sha256(plain).hexdigest() == bundle.id
    assert len(plain) == bundle.size_bytes
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        names = archive.getnames()
    assert names == sorted(names, key=os.fsencode)
    assert bundle.file_count == len(names) - 1  # all but the empty directory


def test_a_bundle_is_removed_at_the_end_of_its_block(source):
    with build_bundle(source) as bundle:
        assert bundle.path.stat().st_size == bundle.compressed_bytes
    assert not bundle.path.exists()


file_names = st.one_of(
    st.sampled_from(["a", "b", "c", "-x", "a b", ".hidden", "grün", "new\nline", "x" * 110, "a\\b", "*"]),
    st.binary(min_size=1, max_size=6).filter(lambda name: not {0, ord("/")} & set(name)).map(os.fsdecode),
).filter(lambda name: name not in (".", "..", ".git", ".farm", ".gitignore", ".farmignore"))
paths = st.lists(file_names, min_size=1, max_size=4).map(lambda parts: "/".join(parts))
things = st.one_of(
    st.tuples(st.just("file"), st.binary(max_size=1500), st.booleans()),
    st.tuples(st.just("link"), paths),
    st.tuples(st.just("directory")),
)


def make_tree(directory: Path, tree: dict[str, tuple[Any, ...]]) -> None:
    for name, thing in tree.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if thing[0] == "file":
                with path.open("xb") as file:
                    file.write(thing[1])
                path.chmod(0o755 if thing[2] else 0o644)
            elif thing[0] == "link":
                path.symlink_to(thing[1])
            else:
                path.mkdir()
        except OSError:  # there is something else already, or above it
            continue


@given(tree=st.dictionaries(paths, things, max_size=12))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_tree_comes_out_as_copy_tree_copies_it(tree):
    with tempfile.TemporaryDirectory() as scratch:
        source, copied, unpacked = (Path(scratch, name) for name in ("source", "copied", "unpacked"))
        source.mkdir()
        copied.mkdir()
        make_tree(source, tree)
        copy_tree(source, copied)
        with build_bundle(source) as bundle:
            unpack_bundle(bundle.path, unpacked, expected_id=bundle.id)
        assert contents(unpacked) == contents(copied)
        assert id_of(unpacked) == bundle.id


def test_an_empty_directory_can_travel(source, tmp_path):
    with build_bundle(source) as bundle:
        unpack_bundle(bundle.path, tmp_path / "out", expected_id=bundle.id)
    assert contents(tmp_path / "out") == {}


def test_excluded_files_stay_behind(source):
    write(source, "app.py", "exam.yaml")
    assert names_in(source, exclude=[source / "exam.yaml"]) == {"app.py"}


def test_a_link_to_a_file_outside_travels_as_that_file(source, tmp_path):
    write(tmp_path, "shared.md")
    (source / "shared.md").symlink_to("../shared.md")
    with build_bundle(source) as bundle:
        unpack_bundle(bundle.path, tmp_path / "out", expected_id=bundle.id)
    assert contents(tmp_path / "out") == {"shared.md": ("file", (0o644, b"shared.md"))}


def test_a_missing_source_is_an_error(source):
    with pytest.raises(FarmError, match="no such directory"):
        build_bundle(source / "gone")


def test_a_path_that_is_too_long_is_an_error_that_says_so(source):
    write(source, "/".join(["d" * 200] * 5))
    with pytest.raises(FarmError, match="longer than 900 bytes"):
        build_bundle(source)
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def test_in_git_farmignore_leaves_out_tracked_and_untracked_files_too(source):
    git(source, "init", "-q")
    write(
        source,
        "app.py",
        "big.bin",
        "sub/big.bin",
        "sub/kept.bin",
        "data/x",
        "build/out",
        "ignored.log",
        "new.bin",
    )
    (source / ".gitignore").write_text("*.log\n")
    (source / ".farmignore").write_text("*.bin\n/data/\n!ignored.log\n")
    (source / "sub/.farmignore").write_text("!kept.bin\n")
    git(source, "add", "app.py", "big.bin", "data", ".gitignore")
    assert names_in(source) == {
        *("app.py", "sub/kept.bin", "build/out", ".gitignore", ".farmignore", "sub/.farmignore")
    }


def test_in_git_the_farmignore_above_counts_and_reaches_into_nested_repositories(source):
    git(source, "init", "-q")
    (source / ".farmignore").write_text("*.bin\n")
    write(source, "inner/a", "inner/a.bin", "inner/nested/b", "inner/nested/b.bin", "inner/nested/b.log")
    git(source / "inner/nested", "init", "-q")
    (source / "inner/nested/.gitignore").write_text("*.log\n")
    assert names_in(source / "inner") == {"a", "nested/b", "nested/.gitignore"}


def test_out_of_git_both_kinds_of_ignore_files_are_heeded(source):
    write(source, "app.py", "x.log", "sub/y.log", "sub/kept.log", "data/x", "data/y", "cache/z")
    (source / ".gitignore").write_text("*.log\n/data/*\n!/data/y\n")
    (source / "sub/.gitignore").write_text("!kept.log\n")
    (source / ".farmignore").write_text("cache/\n!x.log\n")
    assert names_in(source) == {
        *("app.py", "sub/kept.log", "data/y", ".gitignore", "sub/.gitignore", ".farmignore")
    }


def test_a_workspace_that_is_ignored_from_above_has_its_files(source):
    git(source, "init", "-q")
    (source / ".farmignore").write_text("fixtures/\n")
    write(source, "fixtures/a")
    assert names_in(source / "fixtures") == {"a"}
    assert "fixtures/a" not in names_in(source)


def test_a_workspace_over_the_limit_names_what_is_large_and_what_to_do(source):
    write(source, "small")
    for name, size in (("data/raw/huge.bin", 3 * 2**20), ("data/large.bin", 2**20)):
        write(source, name)
        os.truncate(source / name, size)
    with pytest.raises(FarmError) as caught:
        build_bundle(source, max_bytes=2 * 2**20)
    text = str(caught.value)
    assert "4.0 MiB  data/\n" in text
    assert "3.0 MiB  data/raw/huge.bin\n" in text
    assert f"name what the agent does not need in {source}/.farmignore" in text
    (source / ".farmignore").write_text("huge.bin\n")
    assert "data/large.bin" in names_in(source, max_bytes=2 * 2**20)


def test_too_many_files_are_too_much_as_well(source):
    write(source, *(f"f{n}" for n in range(11)))
    with pytest.raises(FarmError, match=r"11 files .* more than a workspace may have"):
        build_bundle(source, max_entries=10)


def test_what_is_exactly_the_limit_fits_at_both_ends(source, tmp_path):
    write(source, "a", "b")
    with build_bundle(source) as bundle:
        size = bundle.size_bytes
    with build_bundle(source, max_bytes=size, max_entries=2) as bundle:
        limits = UnpackLimits(max_bytes=size, max_entries=2)
        unpack_bundle(bundle.path, tmp_path / "out", expected_id=bundle.id, limits=limits)
    with pytest.raises(FarmError, match="more than"):
        build_bundle(source, max_bytes=size - 1)


def test_long_names_count_towards_the_limit(source):
    write(source, "n" * 200, "m" * 200)
    with build_bundle(source) as bundle:
        size = bundle.size_bytes
    with pytest.raises(FarmError, match="more than"):
        build_bundle(source, max_bytes=size - 1)
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def test_memory_is_flat(source, tmp_path):
    with (source / "large").open("wb") as file:
        file.truncate(64 * 2**20)
    tracemalloc.start()
    with build_bundle(source) as bundle:
        unpack_bundle(bundle.path, tmp_path / "out", expected_id=bundle.id)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * 2**20


def member(
    name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", **fields
) -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    header.type = kind
    header.mode = {tarfile.DIRTYPE: 0o755, tarfile.SYMTYPE: 0o777}.get(kind, 0o644)
    header.size = len(content)
    for field, value in fields.items():
        setattr(header, field, value)
    return header, content


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.SYMTYPE, linkname=target)


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for header, content in members:
            archive.addfile(header, io.BytesIO(content))
    return buffer.getvalue()


def unpack_tar(plain: bytes, target: Path, **options) -> None:
    packed = zstandard.ZstdCompressor().compress(plain)
    unpack_bundle(io.BytesIO(packed), target, expected_id=hashlib.sha256(plain).hexdigest(), **options)


def refuse(tmp_path: Path, plain: bytes, match: str, **options) -> None:
    arena = tmp_path / "arena"
    arena.mkdir()
    with pytest.raises(CorruptBundleError, match=match):
        unpack_tar(plain, arena / "out", **options)
    assert list(arena.iterdir()) == []


def test_an_archive_that_tarfile_made_is_unpacked(tmp_path):
    plain = tar_of(member("d", tarfile.DIRTYPE), member("d/f", content=b"x", mode=0o755), link("l", "d/f"))
    unpack_tar(plain, tmp_path / "out")
    assert contents(tmp_path / "out") == {
        "d": ("directory", 0o755),
        "d/f": ("file", (0o755, b"x")),
        "l": ("link", "d/f"),
    }


HOSTILE = {
    "absolute": ([member("/etc/x")], "no path inside"),
    "parent": ([member("../x")], "no path inside"),
    "parent in the middle": ([member("a/../../x")], "no path inside"),
    "parent that stays inside": ([member("a/../x")], "no path inside"),
    "dot": ([member("./x")], "no path inside"),
    "root": ([member(".", tarfile.DIRTYPE)], "no path inside"),
    "empty": ([member("")], "no path inside"),
    "double slash": ([member("a//x")], "no path inside"),
    "file like a directory": ([member("n" * 150 + "/")], "no path inside"),
    "NUL": ([member("é\0x")], "no path inside"),
    "long absolute": ([member("/" + "n" * 150)], "no path inside"),
    "through a link": ([member("d", tarfile.DIRTYPE), link("l", "d"), member("l/x")], "through a link"),
    "through a link outside": ([link("l", "/tmp"), member("l/x")], "leads outside"),
    "below a file": ([member("f"), member("f/x")], "through a link or a file"),
    "absolute link": ([link("l", "/etc/passwd")], "leads outside"),
    "link to the parent": ([link("l", "..")], "leads outside"),
    "deep link outside": ([link("a/b/l", "../../../x")], "leads outside"),
    "long link outside": ([link("l", "../" + "n" * 200)], "leads outside"),
    "empty link": ([link("l", "")], "leads outside"),
    # Each looks harmless; taken together they climb out.
    "links that climb together": (
        [link("x/y/up", "../.."), link("out", "x/y/up/../secret")],
        "'out' is a link that leads outside",
    ),
    "links that climb, in the other order": (
        [link("a-out", "x/y/up/../secret"), link("x/y/up", "../..")],
        "'a-out' is a link that leads outside",
    ),
    "hard link": ([member("f"), member("h", tarfile.LNKTYPE, linkname="f")], "a hard link"),
    "hard link outside": ([member("h", tarfile.LNKTYPE, linkname="/etc/passwd")], "a hard link"),
    "character device": ([member("n", tarfile.CHRTYPE, devmajor=1, devminor=3)], "a device"),
    "block device": ([member("n", tarfile.BLKTYPE, devmajor=7)], "a device"),
    "pipe": ([member("p", tarfile.FIFOTYPE)], "a named pipe"),
    "sparse": ([member("s", tarfile.GNUTYPE_SPARSE)], "unknown type"),
    "global header": ([member("g", tarfile.XGLTYPE)], "unknown type"),
    "GNU long name": ([member("g", tarfile.GNUTYPE_LONGNAME, b"x" * 600)], "unknown type"),
    "twice": ([member("a"), member("b"), member("a")], "'a' twice"),
    "file and link": ([member("a"), link("a", "b")], "'a' twice"),
    "directory twice": ([member("d", tarfile.DIRTYPE)] * 2, "'d' twice"),
    "directory after its file": ([member("d/f"), member("d", tarfile.DIRTYPE)], "'d' twice"),
    "setuid": ([member("s", mode=0o4755)], "mode 4755"),
    "setgid directory": ([member("s", tarfile.DIRTYPE, mode=0o2755)], "mode 2755"),
    "sticky": ([member("s", mode=0o1644)], "mode 1644"),
    "writable by all": ([member("s", mode=0o666)], "mode 666"),
    "long path": ([member("/".join(["d" * 200] * 5))], "too long a path"),
    "long name": ([member("n" * 256)], "too long a path"),
    "link to a long path": ([link("l", "n" * 5000)], "too long a path"),
    "other extended header": ([member("f", pax_headers={"comment": "x"})], "extended header"),
    "sparse by extended header": ([member("f", pax_headers={"GNU.sparse.major": "1"})], "extended header"),
    "huge extended header": ([member("f", pax_headers={"path": "x" * 20_000})], "header that is too long"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(tmp_path, name):
    members, match = HOSTILE[name]
    refuse(tmp_path, tar_of(*members), match)


def test_a_name_from_an_archive_can_not_write_to_the_terminal(tmp_path):
    refuse(tmp_path, tar_of(member("\x1b[2J", mode=0o777)), r"'\\x1b\[2J'")


def test_a_link_and_a_directory_with_content_are_refused(tmp_path):
    plain = bytearray(tar_of(member("l", content=b"x" * 512)))
    header = tarfile.TarInfo("l")
    header.type, header.mode, header.size = tarfile.SYMTYPE, 0o777, 512
    header.linkname = "x"
    plain[:512] = header.tobuf(tarfile.USTAR_FORMAT)
    refuse(tmp_path, bytes(plain), "content and is no file")


@pytest.mark.parametrize(
    "header",
    [
        b"x",
        b"-1 path=a\n",
        b"99 path=a\n",
        b"11 path=a\n",
        b"8 path=a\n",
        b"999999999 path=a\n",
        b"0 path=a\n",
    ],
)
def test_a_broken_extended_header_is_refused(tmp_path, header):
    extended, _ = member("x", tarfile.XHDTYPE)
    extended.size = len(header)
    blocks = extended.tobuf(tarfile.USTAR_FORMAT) + header.ljust(512, b"\0")
    refuse(tmp_path, blocks + tar_of(member("a")), "extended header|bad header")


def test_a_bad_checksum_and_a_negative_size_are_refused(tmp_path):
    plain = bytearray(tar_of(member("a")))
    plain[0] = ord("b")
    refuse(tmp_path, bytes(plain), "bad header")
    shutil.rmtree(tmp_path / "arena")
    header = tarfile.TarInfo("a")
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\xff" * 12
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    refuse(tmp_path, bytes(block) + bytes(1024), "bad header|negative")


def test_something_after_the_end_is_refused(tmp_path):
    refuse(tmp_path, tar_of(member("a")) + b"more", "follows its end")
    shutil.rmtree(tmp_path / "arena")
    plain = tar_of(member("a"))
    packed = zstandard.ZstdCompressor().compress(plain) + b"more"
    with pytest.raises(CorruptBundleError, match="follows its end"):
        unpack_bundle(io.BytesIO(packed), tmp_path / "out", expected_id=hashlib.sha256(plain).hexdigest())


def test_an_archive_without_an_end_is_refused(tmp_path):
    refuse(tmp_path, tar_of(member("a"))[:512], "ends too early")


def test_a_bomb_is_refused_while_it_goes_off(tmp_path):
    bomb = io.BytesIO(zstandard.ZstdCompressor().compress(tar_of(member("zeros", content=bytes(50 * 2**20)))))
    tracemalloc.start()
    with pytest.raises(CorruptBundleError, match="larger than 1048576 bytes"):
        unpack_bundle(bomb, tmp_path / "out", expected_id="0" * 64, limits=UnpackLimits(max_bytes=2**20))
    assert not (tmp_path / "out").exists()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * 2**20


def test_a_bomb_of_headers_is_refused(tmp_path):
    extended, _ = member("x", tarfile.XHDTYPE)
    extended.size = 40 * 2**20
    plain = extended.tobuf(tarfile.USTAR_FORMAT) + bytes(40 * 2**20)
    refuse(tmp_path, plain, "header that is too long")


def test_more_entries_than_allowed_are_refused(tmp_path):
    plain = tar_of(*(member(f"f{n}") for n in range(11)))
    refuse(tmp_path, plain, "more than 10 entries", limits=UnpackLimits(max_entries=10))


def test_a_window_that_needs_much_memory_is_refused(tmp_path):
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    plain = tar_of(member("a"))
    packed = compressor.compress(plain) + compressor.flush()
    with pytest.raises(CorruptBundleError, match="can't be decompressed"):
        unpack_bundle(io.BytesIO(packed), tmp_path / "out", expected_id=hashlib.sha256(plain).hexdigest())


@pytest.fixture
def packed(source):
    make_project(source)
    write(source, *(f"more/{n}" for n in range(40)))
    (source / "noise").write_bytes(random.Random(1).randbytes(20_000))
    with build_bundle(source) as bundle:
        return bundle.id, bundle.path.read_bytes()


def is_refused(content: bytes, bundle_id: str, arena: Path) -> bool:
    arena.mkdir(exist_ok=True)
    try:
        unpack_bundle(io.BytesIO(content), arena / "out", expected_id=bundle_id)
    except CorruptBundleError:
        assert list(arena.iterdir()) == []
        return True
    return False


def test_a_truncated_archive_is_refused_wherever_it_ends(packed, tmp_path):
    bundle_id, content = packed
    pick = random.Random(0)
    ends = {0, 1, 4, *range(len(content) - 8, len(content)), *pick.sample(range(len(content)), 60)}
    assert [end for end in sorted(ends) if not is_refused(content[:end], bundle_id, tmp_path / "arena")] == []


def test_a_flipped_bit_is_refused_wherever_it_is(packed, tmp_path):
    bundle_id, content = packed
    pick = random.Random(0)
    accepted = []
    for position in {
        *range(12),
        *range(len(content) - 8, len(content)),
        *pick.sample(range(len(content)), 80),
    }:
        damaged = bytearray(content)
        damaged[position] ^= 1 << pick.randrange(8)
        if not is_refused(bytes(damaged), bundle_id, tmp_path / "arena"):
            accepted.append(position)
            assert id_of(tmp_path / "arena/out") == bundle_id
            shutil.rmtree(tmp_path / "arena/out")
    # A frame's header has bits that mean nothing to the content; it is right all the same.
    assert all(position < 12 for position in accepted)


@pytest.mark.parametrize("content", [b"", b"no zstd at all", b"\x28\xb5\x2f\xfd"])
def test_what_is_no_archive_is_refused(content, tmp_path):
    assert is_refused(content, "0" * 64, tmp_path / "arena")


def test_another_bundle_is_refused_by_its_id(packed, tmp_path):
    bundle_id, content = packed
    with pytest.raises(CorruptBundleError, match=f"bundle {'0' * 64}: its content has the id {bundle_id}"):
        unpack_bundle(io.BytesIO(content), tmp_path / "out", expected_id="0" * 64)
    assert not (tmp_path / "out").exists()


def test_a_stream_that_gives_little_at_a_time_is_read_to_its_end(packed, tmp_path):
    bundle_id, content = packed

    class Trickle(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 7) if size >= 0 else 7)

    unpack_bundle(Trickle(content), tmp_path / "out", expected_id=bundle_id)
    assert id_of(tmp_path / "out") == bundle_id


def test_a_target_that_is_not_empty_is_left_alone(packed, tmp_path):
    bundle_id, content = packed
    write(tmp_path / "out", "mine")
    with pytest.raises(FarmError, match="not empty"):
        unpack_bundle(io.BytesIO(content), tmp_path / "out", expected_id=bundle_id)
    assert contents(tmp_path / "out") == {"mine": ("file", (0o644, b"mine"))}


def test_an_empty_target_that_exists_is_filled_with_the_modes_that_bundles_have(packed, tmp_path):
    bundle_id, content = packed
    (tmp_path / "out").mkdir(mode=0o700)
    before = os.umask(0o077)
    try:
        unpack_bundle(io.BytesIO(content), tmp_path / "out", expected_id=bundle_id)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(p.lstat().st_mode) for p in (tmp_path / "out").rglob("*") if not p.is_symlink()}
    assert modes == {0o644, 0o755}
    assert id_of(tmp_path / "out") == bundle_id


def test_a_target_without_a_parent_is_a_clear_error(packed, tmp_path):
    bundle_id, content = packed
    with pytest.raises(FarmError, match=r"can't unpack bundle .* No such file"):
        unpack_bundle(io.BytesIO(content), tmp_path / "gone/out", expected_id=bundle_id)
