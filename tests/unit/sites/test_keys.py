"""Keys of centre and agents: made, kept for their owner alone, told apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.errors import ConfigInvalid
from flashferry.sites.keys import PrivateKey, PublicKey, check_secret_file


def test_a_key_that_was_saved_is_the_same_and_its_owners_alone(tmp_path: Path) -> None:
    """What is loaded signs as what was saved; the file is 0600."""
    made, path = PrivateKey.make(), tmp_path / "agent.key"
    made.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    loaded = PrivateKey.load(path)
    assert loaded.public == made.public
    assert made.public.verifies(loaded.sign(b"a"), b"a")


def test_a_key_is_never_written_over(tmp_path: Path) -> None:
    """A file that is there stays as it is: its public key is known elsewhere."""
    path = tmp_path / "agent.key"
    PrivateKey.make().save(path)
    before = path.read_bytes()
    with pytest.raises(ConfigInvalid, match="expected a name that is free"):
        PrivateKey.make().save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_key_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    """A secret that others may have read is none."""
    path = tmp_path / "agent.key"
    PrivateKey.make().save(path)
    path.chmod(mode)
    with pytest.raises(ConfigInvalid, match="its owner alone may read") as caught:
        PrivateKey.load(path)
    assert "chmod 600" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_file_that_holds_no_such_key_is_refused(tmp_path: Path, content: bytes) -> None:
    """It is said what was expected; nothing of the content is."""
    path = tmp_path / "agent.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigInvalid, match="expected an Ed25519 key"):
        PrivateKey.load(path)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    """An RSA or EC key is no key of ours."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path = tmp_path / "agent.key"
    other = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(ConfigInvalid, match="expected an Ed25519 key"):
        PrivateKey.load(path)


def test_a_missing_key_is_told_with_what_makes_one(tmp_path: Path) -> None:
    """The hint names the command."""
    with pytest.raises(ConfigInvalid, match="cannot be read") as caught:
        PrivateKey.load(tmp_path / "none.key")
    assert "sites init" in (caught.value.hint or "")


def test_a_missing_file_that_init_does_not_make_is_not_said_to_be_made_by_it(tmp_path: Path) -> None:
    """For a broker's password or TLS key the hint names path and rights alone."""
    with pytest.raises(ConfigInvalid, match=r"password of the broker .* cannot be read") as caught:
        check_secret_file(tmp_path / "none.password", "password of the broker")
    assert caught.value.hint == "Check path and permissions"


def test_a_public_key_is_the_same_behind_its_line() -> None:
    """One line carries it, and says its short name."""
    public = PrivateKey.make().public
    assert PublicKey.of(public.line) == public
    assert public.line.split()[1] == public.key_id
    assert len(public.key_id) == 16


@pytest.mark.parametrize("change", ["cut", "letter", "id", "kind", "empty", "more"])
def test_a_line_whose_parts_do_not_belong_together_is_refused(change: str) -> None:
    """A mistyped or cut key is found out when settings are read, not when the first order comes."""
    kind, key_id, key = PrivateKey.make().public.line.split()
    wrong = {
        "cut": f"{kind} {key_id} {key[:-8]}",
        "letter": f"{kind} {key_id} {'A' if key[0] != 'A' else 'B'}{key[1:]}",
        "id": f"{kind} {'0' * 16} {key}",
        "kind": f"rsa {key_id} {key}",
        "empty": "",
        "more": f"{kind} {key_id} {key} comment",
    }[change]
    with pytest.raises(ConfigInvalid, match="public key"):
        PublicKey.of(wrong)


@given(signature=st.binary(max_size=80))
def test_what_is_no_signature_verifies_nothing(signature: bytes) -> None:
    """Bytes of any length are an answer, never an error."""
    assert not PrivateKey.make().public.verifies(signature, b"content")
