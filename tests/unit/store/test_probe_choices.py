"""What a sweep found to be the fastest, kept for devices of the same model."""

from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.store.probe_choices import SshPreference, SshPreferences

ONE = SshPreference(model="C8300", cipher="aes128-gcm@openssh.com", rate_bytes_per_s=5e6, host="r1", run_id="run")


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    """By model, the last word of each; the file is ours alone."""
    kept = SshPreferences.read(tmp_path)
    assert kept.by_name == {}
    kept.keep(ONE)
    other = SshPreference(
        model="IOSv", cipher="aes128-ctr", mac="hmac-sha1", rate_bytes_per_s=1e6, host="r2", run_id="x"
    )
    SshPreferences.read(tmp_path).keep(other)
    assert SshPreferences.read(tmp_path).by_name == {"C8300": ONE, "IOSv": other}
    assert (tmp_path / SshPreferences.file).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "other", "preferences": []}', '{"schema": 1}'])
def test_a_file_that_is_none_of_ours_is_told(tmp_path: Path, text: str) -> None:
    """One sentence with the file's name, before anything is touched, and what to do."""
    (tmp_path / SshPreferences.file).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigInvalid, match=SshPreferences.file) as caught:
        SshPreferences.read(tmp_path)
    assert caught.value.hint
