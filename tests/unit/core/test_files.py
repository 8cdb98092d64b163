"""Files are written whole or not at all, also on a disk that is full."""

import logging
import os
import resource
import stat
from pathlib import Path

import pytest

from flashferry.core.files import JsonCache, write_whole


def test_a_file_that_cannot_be_written_whole_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where there is no room the file before stays as it was, the reason is told, and no part of the new one stays."""
    path = tmp_path / "kept.json"
    file = JsonCache(path, unread="it is made anew", unwritten="it will be made again")
    file.store({"a": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                file.store({"a": "x" * 10_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.json"]
    assert file.load() == {"a": 1}
    assert "cannot be written" in caplog.text
    assert "it will be made again" in caplog.text


@pytest.mark.parametrize(("is_private", "mode"), [(True, 0o600), (False, 0o640)])
def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, is_private: bool, mode: int) -> None:
    """The new text replaces the old one as it is, with the rights that were asked for; nothing else is left."""
    path = tmp_path / "report.html"
    path.write_text("old")
    before = os.umask(0o027)
    try:
        write_whole(path, "new\r\n", is_private=is_private)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "none" / "report.html", "new", is_private=is_private)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """What a link in the file's place leads to stays as it was."""
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    write_whole(tmp_path / "link", "new", is_private=True)
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "link").read_text() == "new"
