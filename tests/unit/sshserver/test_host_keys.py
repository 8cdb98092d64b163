"""Host keys: made once, kept to their owner, and refused in one sentence where they are not."""

import shutil
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from flashferry.fileserver import SettingsInvalid
from flashferry.sshserver import algorithms as settings_module
from flashferry.sshserver import found_host_keys, load_host_keys, ssh_listener
from flashferry.sshserver import host_keys as module


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of keys, made once: those of RSA take a while."""
    folder = tmp_path_factory.mktemp("made") / "keys"
    load_host_keys(folder)
    return folder


@pytest.fixture
def keys(made: Path, tmp_path: Path) -> Path:
    """Such a folder for one test, to be spoiled."""
    return shutil.copytree(made, tmp_path / "keys")


def test_keys_are_made_once_and_kept(tmp_path: Path) -> None:
    """RSA, ECDSA and Ed25519, in a folder and in files that their owner alone may read, and never anew."""
    folder = tmp_path / "state" / "keys"
    first = load_host_keys(folder)
    assert [key.algorithm for key in first] == ["ssh-rsa", "ecdsa-sha2-nistp256", "ssh-ed25519"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *sorted(folder.iterdir()))] == [0o700] + [0o600] * 3
    assert load_host_keys(folder) == first
    assert all("PRIVATE" not in repr(key) for key in first)


def test_fingerprints_are_what_others_show(made: Path) -> None:
    """As ssh-keygen has them, and as IOS keeps them: 32 digits."""
    for key in load_host_keys(made):
        for kind, shown in (("sha256", key.sha256), ("md5", key.md5)):
            asked = subprocess.run(
                ["ssh-keygen", "-l", "-E", kind, "-f", str(key.path)], capture_output=True, text=True, check=True
            )
            assert asked.stdout.split()[1] == shown
        sha256, pairs, digits = key.fingerprints
        assert (sha256, len(pairs), len(digits), digits) == (key.sha256, 47, 32, digits.upper())


def test_who_makes_them_at_the_same_time_has_the_same(tmp_path: Path) -> None:
    """The first to be there stays, and nothing half is left."""
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(load_host_keys(tmp_path / "keys"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(one == found[0] for one in found)
    assert len(list((tmp_path / "keys").iterdir())) == 3


def _spoiled(folder: Path, how: str) -> None:
    key = folder / "ssh_host_rsa_key"
    if how == "read by others":
        key.chmod(0o640)
    elif how == "folder of others":
        folder.chmod(0o755)
    elif how == "broken":
        key.write_bytes(key.read_bytes()[:200])
    elif how == "short":
        short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
        key.write_bytes(short.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    elif how == "of another kind":
        key.write_bytes((folder / "ssh_host_ecdsa_key").read_bytes())
    elif how == "a link":
        key.rename(folder / "elsewhere")
        key.symlink_to(folder / "elsewhere")
    else:
        key.unlink()
        key.mkdir()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("read by others", "ssh_host_rsa_key to be readable by its owner alone, found mode 640"),
        ("folder of others", "keys to be readable by its owner alone, found mode 755"),
        ("broken", "ssh_host_rsa_key to hold a private key of its kind without a passphrase, found none"),
        ("short", "ssh_host_rsa_key to hold a private key"),
        ("of another kind", "ssh_host_rsa_key to hold a private key"),
        ("a link", "cannot use .*ssh_host_rsa_key: Too many levels of symbolic links"),
        ("a folder", "cannot use .*: Is a directory"),
    ],
)
def test_a_key_that_cannot_be_used_is_one_sentence(keys: Path, how: str, message: str) -> None:
    """Before anything is started, with what to do; none is made in its place."""
    _spoiled(keys, how)
    before = sorted(keys.iterdir())
    with pytest.raises(SettingsInvalid, match=f"^SSH host keys: .*({message})") as caught:
        ssh_listener(host_keys=keys)
    assert caught.value.hint
    assert sorted(keys.iterdir()) == before


def test_a_folder_of_somebody_else_is_refused(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose it is, is said."""
    monkeypatch.setattr(module.os, "geteuid", lambda: 4711)
    with pytest.raises(SettingsInvalid, match="to be this user's, found user"):
        load_host_keys(keys)


def test_without_the_extra_it_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That says how to come by it, and makes no keys."""
    monkeypatch.setattr(settings_module, "find_spec", lambda _name: None)
    with pytest.raises(SettingsInvalid, match="expected the package asyncssh, found none") as caught:
        ssh_listener(host_keys=tmp_path / "keys")
    assert "[scp]" in str(caught.value.hint)
    assert not (tmp_path / "keys").exists()


def test_the_listener_has_a_process_of_its_own(made: Path) -> None:
    """And serves both transports at one port."""
    listener = ssh_listener(host_keys=made, port=2222)
    assert (listener.transports, listener.process, listener.port) == (("scp", "sftp"), "ssh", 2222)


def test_each_fingerprint_is_told_with_what_it_is(made: Path) -> None:
    """The key's kind first: nine of them in a row told nobody which is which."""
    for key in load_host_keys(made):
        sha256, pairs, digits = key.fingerprints
        assert key.described == f"{key.algorithm}: {sha256}, MD5 {pairs}, MD5 as IOS stores it {digits}"


def test_keys_can_be_looked_at_without_making_any(tmp_path: Path) -> None:
    """None where there is no folder, those that are there else, and no file more than before."""
    folder = tmp_path / "keys"
    assert found_host_keys(folder) == ()
    assert not folder.exists()
    made = load_host_keys(folder)
    made[0].path.unlink()
    assert found_host_keys(folder) == made[1:]
    assert not made[0].path.exists()
    made[1].path.chmod(0o644)
    with pytest.raises(SettingsInvalid, match="readable by its owner alone, found mode 644"):
        found_host_keys(folder)
