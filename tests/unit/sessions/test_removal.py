from __future__ import annotations

from farm.sessions.removal import remove_tree


def test_a_link_in_place_of_a_directory_is_removed_and_what_it_points_to_is_untouched(tmp_path):
    other = tmp_path / "other"
    (other / "sub").mkdir(parents=True)
    (other / "sub").chmod(0o755)
    link = tmp_path / "link"
    link.symlink_to(other)

    assert remove_tree(link)
    assert not link.is_symlink()
    assert (other / "sub").stat().st_mode & 0o777 == 0o755


def test_what_is_not_there_is_gone(tmp_path):
    assert remove_tree(tmp_path / "never")
