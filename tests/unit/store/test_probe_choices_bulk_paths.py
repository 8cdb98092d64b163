"""Paths that were probed: one per source, in a small file of the state folder."""

import stat

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.store.probe_choices import BulkPath, BulkPaths


def path(source: str, rate: float = 1e6) -> BulkPath:
    return BulkPath(source=source, at="2026-11-27T00:00:00Z", method="scp x", rate_bytes_per_s=rate, ciphers=("x", "y"))


def test_a_path_replaces_the_former_of_its_source(tmp_path):
    """And leaves those of others; the file is its owner's alone."""
    known = BulkPaths.read(tmp_path)
    assert known.by_name == {}
    for one in (path("b"), path("a"), path("b", 2e6)):
        known.keep(one)
    again = BulkPaths.read(tmp_path)
    assert again.by_name == {"a": path("a"), "b": path("b", 2e6)}
    assert stat.S_IMODE((tmp_path / BulkPaths.file).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["", "{}", '{"schema": "x", "paths": []}', '{"schema": "flashferry.bulk-paths/1", "paths": [{}]}']
)
def test_a_file_of_another_shape_is_refused(tmp_path, text):
    """The sentence says to delete it."""
    (tmp_path / BulkPaths.file).write_text(text)
    with pytest.raises(ConfigInvalid, match="expected paths as a depot's probe keeps them"):
        BulkPaths.read(tmp_path)
