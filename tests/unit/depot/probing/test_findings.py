"""The block of ssh_config: what it says, what it replaces, and which files are left alone."""

from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.probing import findings
from flashferry.depot.probing.methods import SshAccess
from flashferry.store.probe_choices import BulkPath

FOUND = BulkPath(
    source="u@h:22",
    at="2026-11-27T00:00:00Z",
    method="scp aes128-gcm@openssh.com",
    rate_bytes_per_s=5e6,
    bound_by="link",
    ciphers=("aes128-gcm@openssh.com", "aes128-ctr"),
    macs=("hmac-sha2-256",),
)
ACCESS = SshAccess(host="h", user="u", port=22)


def test_the_block_names_the_host_and_the_best_first():
    """Compression is switched off in words, for a line further down may switch it on."""
    lines = findings.block(FOUND, ACCESS).splitlines()
    assert lines[0].startswith("# flashferry depot probe: u@h:22, 2026-11-27T00:00:00Z")
    assert lines[1:] == [
        "Host h",
        "    Ciphers aes128-gcm@openssh.com,aes128-ctr",
        "    MACs hmac-sha2-256",
        "    Compression no",
    ]


@pytest.mark.parametrize("host", ["*", "h other", "h\nProxyCommand x", "!h", ""])
def test_a_name_that_would_mean_more_than_one_host_is_refused(host):
    """A pattern, a list or a line of its own would change ssh for others."""
    with pytest.raises(ConfigInvalid, match="expected a host name"):
        findings.block(FOUND, SshAccess(host=host))


def test_without_ciphers_there_is_no_block():
    """What was probed by HTTP alone says nothing of SSH."""
    with pytest.raises(ConfigInvalid, match="expected ciphers"):
        findings.block(BulkPath(source="s", at="", method="http", rate_bytes_per_s=1.0), ACCESS)


def test_a_file_of_ours_is_replaced_and_told(tmp_path):
    """Its former lines are said before they go."""
    path = tmp_path / "depot.conf"
    assert "is new" in findings.replaces(path)
    findings.write(path, findings.block(FOUND, ACCESS))
    told = findings.replaces(path)
    assert "holds so far: Host h; Ciphers aes128-gcm@openssh.com,aes128-ctr" in told
    assert f"Include {path}" in told
    findings.write(path, findings.block(FOUND, ACCESS).replace("Host h", "Host i"))
    assert "Host i" in path.read_text()


def test_another_file_is_left_alone(tmp_path):
    """Somebody's own settings are not ours to replace."""
    path = tmp_path / "mine.conf"
    path.write_text("Host *\n    Compression yes\n")
    with pytest.raises(ConfigInvalid, match="found another file there"):
        findings.write(path, "x")
    assert path.read_text().startswith("Host *")


def test_the_systems_and_the_users_own_configuration_are_never_written(tmp_path, monkeypatch):
    """Neither by its name nor by a link to it."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / ".ssh").mkdir()
    link = tmp_path / "link"
    link.symlink_to("/etc/ssh/ssh_config.d/x.conf")
    for path in (Path("/etc/ssh/ssh_config.d/x.conf"), tmp_path / ".ssh" / "config", link):
        with pytest.raises(ConfigInvalid, match="all of ssh reads"):
            findings.write(path, "x")
        assert not path.exists()
