"""Which keys a known_hosts file gives for a name, and what becomes of a key that a device shows."""

from __future__ import annotations

import base64
import shutil
import subprocess
import threading

import pytest

from flashferry.devices.errors import HostKeyRefused, LoginRefused
from flashferry.devices.host_keys import HostKey, HostKeys, keys_of, line_for, name_of
from inventory.host_key_rules import HostKeyPolicy


def key(text: str, kind: str = "ssh-rsa") -> HostKey:
    fields = b"".join(len(field).to_bytes(4, "big") + field for field in (kind.encode(), text.encode()))
    return HostKey(kind=kind, base64=base64.b64encode(fields).decode())


ONE, TWO = key("one"), key("two")


def lines_of(text: str, name: str) -> list[int]:
    return [known.line for known in keys_of(text, name)]


@pytest.mark.parametrize(
    ("patterns", "name", "fits"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.10", False),
        ("192.0.2.1", "[192.0.2.1]:2222", False),
        ("[192.0.2.1]:2222", "[192.0.2.1]:2222", True),
        ("r1,192.0.2.1", "192.0.2.1", True),
        ("192.0.2.*", "192.0.2.77", True),
        ("192.0.2.?", "192.0.2.77", False),
        ("192.0.2.*,!192.0.2.7", "192.0.2.7", False),
        ("Router.Example", "router.example", True),
        ("|1|no base64|x", "192.0.2.1", False),
        ("|2|AAAA|AAAA", "192.0.2.1", False),
    ],
)
def test_patterns(patterns, name, fits):
    """A line counts for the names that sshd(8) says its patterns mean, and for no other."""
    assert bool(keys_of(line_for(patterns, ONE), name)) is fits


def test_lines_that_say_nothing():
    """Comments, empty lines, certificate authorities and rubbish give no key and shift no line number."""
    text = f"# r1 ssh-rsa {ONE.base64}\n\n@cert-authority r1 ssh-rsa {ONE.base64}\nr1 ssh-rsa\nr1 ssh-rsa %%%\n"
    assert lines_of(text + line_for("r1", ONE), "r1") == [6]


@pytest.mark.parametrize("pattern", ["", "r9? ssh-rsa AAAA\n"])
def test_each_line_of_a_name_counts_once(pattern):
    """With and without patterns in a file, the same lines count: of a list, in capitals, and a last one without end."""
    other = line_for("r11,r2", TWO)
    text = f"{pattern}{line_for('R1,r1', ONE)}\n{other}\n{line_for('r2,r1', TWO)}\n{other}\n{line_for('r1', TWO)}"
    assert lines_of(text, "r1") == [line + bool(pattern) for line in (1, 3, 5)]


@pytest.mark.parametrize(
    "line",
    ["r1", "r1 ssh-rsa", "r1 ssh-rsa %%%", "r1 ssh-rsa AAAA", f"r1 ssh-rsa {ONE.base64[:-4]}", f"r1 x {ONE.base64}"],
)
@pytest.mark.parametrize("policy", list(HostKeyPolicy))
def test_a_damaged_line_refuses_the_device(tmp_path, line, policy):
    """Passed over, it would let anybody in as a new device; the file and the line are told, other names go on."""
    path = tmp_path / "known_hosts"
    path.write_text(f"# ours\n{line}\nr2 ssh-rsa {ONE.base64}\n")
    with pytest.raises(HostKeyRefused, match=r"known_hosts line 2: expected a host key of r1"):
        keys(path, policy).check("r1", TWO)
    keys(path, policy).check("r2", ONE)


def test_the_lines_of_others_stay_byte_for_byte(tmp_path):
    """CR LF, a missing last line end and bytes that are no UTF-8 stay; a link stays a link."""
    file, link = tmp_path / "file", tmp_path / "known_hosts"
    before = b"# \xff\r\nr2 ssh-rsa " + ONE.base64.encode()
    file.write_bytes(before)
    link.symlink_to(file)
    keys(link).check("r1", TWO)
    assert file.read_bytes() == before + b"\n" + line_for("r1", TWO).encode() + b"\n"
    assert link.is_symlink()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH's ssh-keygen is not installed")
def test_as_openssh_has_it(tmp_path):
    """ssh-keygen finds what we write, we find what it hashes, and both print the same fingerprint."""
    made, file = tmp_path / "key", tmp_path / "known_hosts"
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", made], check=True)
    kind, blob, *_ = made.with_suffix(".pub").read_text().split()
    real = HostKey(kind=kind, base64=blob)
    file.write_text(line_for(name_of("192.0.2.1", 2222), real) + "\n")
    found = subprocess.run(
        ["ssh-keygen", "-l", "-F", "[192.0.2.1]:2222", "-f", file], check=True, capture_output=True, text=True
    ).stdout
    assert real.fingerprint in found
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, capture_output=True)
    assert "192.0.2.1" not in file.read_text()
    assert [known.key for known in keys_of(file.read_text(), "[192.0.2.1]:2222")] == [real]
    assert keys_of(file.read_text(), "192.0.2.1") == ()


def keys(path, policy=HostKeyPolicy.ACCEPT_NEW) -> HostKeys:
    return HostKeys(path=path, policy=policy, device="r1")


def test_a_new_key_is_remembered_for_its_owner_only(tmp_path):
    """Under accept-new the first key is written into a file that nobody else can read, and known from then on."""
    path = tmp_path / "state" / "known_hosts"
    keys(path).check("192.0.2.1", ONE)
    keys(path, HostKeyPolicy.STRICT).check("192.0.2.1", ONE)
    assert path.read_text() == line_for("192.0.2.1", ONE) + "\n"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("policy", list(HostKeyPolicy))
def test_a_changed_key_is_refused(tmp_path, policy):
    """Both fingerprints, the line and the command that removes it are told; the file stays as it was."""
    path = tmp_path / "known_hosts"
    path.write_text(f"# ours\n{line_for('[192.0.2.1]:2222', ONE)}\n")
    before = path.read_bytes()
    with pytest.raises(HostKeyRefused) as caught:
        keys(path, policy).check("[192.0.2.1]:2222", TWO)
    assert isinstance(caught.value, LoginRefused)
    assert caught.value.message == (
        f"the host key of [192.0.2.1]:2222 has changed: expected {ONE.fingerprint} (ssh-rsa), "
        f"seen {TWO.fingerprint} (ssh-rsa)"
    )
    assert f"remove line 2 of {path} (ssh-keygen -R '[192.0.2.1]:2222' -f '{path}')" in str(caught.value)
    assert path.read_bytes() == before


def test_a_key_of_another_type_is_a_changed_one(tmp_path):
    """Who answers with a type that we do not know the device by has not shown that it is the device."""
    keys(tmp_path / "known_hosts").check("r1", ONE)
    with pytest.raises(HostKeyRefused, match="has changed"):
        keys(tmp_path / "known_hosts").check("r1", key("three", "ssh-ed25519"))


def test_one_of_several_known_keys_will_do(tmp_path):
    """A pair of routers behind one address has two keys, and both are good."""
    path = tmp_path / "known_hosts"
    path.write_text(f"{line_for('r1', ONE)}\n{line_for('r1', TWO)}\n")
    keys(path, HostKeyPolicy.STRICT).check("r1", TWO)


def test_a_revoked_key_is_refused(tmp_path):
    """A key that the file revokes is not taken as a new one."""
    path = tmp_path / "known_hosts"
    path.write_text(f"@revoked * ssh-rsa {ONE.base64}\n")
    with pytest.raises(HostKeyRefused, match="line 1 revokes"):
        keys(path).check("r1", ONE)
    keys(path).check("r1", TWO)


def test_strict_takes_no_new_key(tmp_path):
    """Under strict an unknown device is refused with its fingerprint, and nothing is written."""
    path = tmp_path / "known_hosts"
    with pytest.raises(HostKeyRefused, match="found none; the device shows SHA256:") as caught:
        keys(path, HostKeyPolicy.STRICT).check("r1", ONE)
    assert "--host-keys accept-new" in str(caught.value)
    assert not path.exists()


def test_many_new_devices_at_once(tmp_path):
    """Forty threads that meet forty devices lose none, and leave nothing but the file and its lock."""
    path = tmp_path / "known_hosts"
    path.write_text("# no line end")
    met = [(f"r{number}", key(f"key {number}")) for number in range(40)]
    threads = [threading.Thread(target=keys(path).check, args=one) for one in met]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = path.read_text()
    assert text.startswith("# no line end\n")
    assert all([known.key for known in keys_of(text, name)] == [shown] for name, shown in met)
    assert {one.name for one in tmp_path.iterdir()} == {"known_hosts", "known_hosts.lock"}


def test_two_devices_of_one_name_at_once(tmp_path):
    """Where two keys are new for one name at the same time, one is accepted and the other is a changed one."""
    path, refused = tmp_path / "known_hosts", []

    def judge(shown: HostKey) -> None:
        try:
            keys(path).check("r1", shown)
        except HostKeyRefused as error:
            refused.append(error)

    threads = [threading.Thread(target=judge, args=(shown,)) for shown in (ONE, TWO)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert len(keys_of(path.read_text(), "r1")) == 1


def test_a_linked_file_stays_a_link(tmp_path):
    """The user's own file behind a link gets the line; the link is not replaced."""
    real, link = tmp_path / "real", tmp_path / "known_hosts"
    real.write_text("")
    real.chmod(0o644)
    link.symlink_to(real)
    keys(link).check("r1", ONE)
    assert link.is_symlink()
    assert real.read_text() == line_for("r1", ONE) + "\n"
    assert real.stat().st_mode & 0o777 == 0o644


def test_a_key_that_cannot_be_remembered_is_refused(tmp_path):
    """Accepting what is forgotten at once would accept every other key the next time."""
    (tmp_path / "file").write_text("")
    with pytest.raises(HostKeyRefused, match="cannot be") as caught:
        keys(tmp_path / "file" / "known_hosts").check("r1", ONE)
    assert "--known-hosts" in str(caught.value)
