"""Small files of ours on a disk that is full."""

import logging
import resource
from pathlib import Path

import pytest

from flashferry.core import files as json_file


def test_a_file_that_cannot_be_written_whole_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where there is no room the file before stays as it was, the reason is told, and no part of the new one stays."""
    path = tmp_path / "kept.json"
    json_file.store(path, {"a": 1}, "it is made anew")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                json_file.store(path, {"a": "x" * 10_000}, "it is made anew")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.json"]
    assert json_file.load(path, "") == {"a": 1}
    assert "cannot be written" in caplog.text
    assert "it is made anew" in caplog.text
