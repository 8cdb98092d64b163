"""What is offered to whom; asyncssh knows every name of it."""

import re
from pathlib import Path

import asyncssh.encryption
import asyncssh.kex
import asyncssh.mac
import pytest

import flashferry
from flashferry.core.values import replace
from flashferry.fileserver.ticket_accounts import SshOffer
from flashferry.sshserver import algorithms as module
from flashferry.sshserver.algorithms import LONG_REKEY_BYTES, SHORT_REKEY_BYTES, algorithms_for

_OLD = re.compile(r"sha1\b|sha1-|cbc|^ssh-rsa$|md5|group1-")


def _names(*offers: SshOffer) -> set[str]:
    found = algorithms_for(offers)
    return {*found.exchanges, *found.host_keys, *found.ciphers, *found.macs}


@pytest.mark.parametrize("offers", [(), (SshOffer(),)])
def test_nothing_old_is_offered_to_whom_no_ticket_says_so(offers: tuple[SshOffer, ...]) -> None:
    """No SHA-1, no CBC, no ssh-rsa."""
    assert [name for name in _names(*offers) if _OLD.search(name)] == []
    assert {"curve25519-sha256", "rsa-sha2-256", "aes128-ctr", "hmac-sha2-256"} <= _names(*offers)


def test_legacy_adds_what_old_ios_has() -> None:
    """Beside all of the modern, and neither triple DES nor the group of 1024 bits."""
    legacy = _names(SshOffer(), SshOffer(profile="legacy"), SshOffer())
    added = {
        *("diffie-hellman-group14-sha1", "ssh-rsa"),
        *("aes128-cbc", "aes192-cbc", "aes256-cbc", "hmac-sha1", "hmac-sha1-96", "hmac-sha1-etm@openssh.com"),
    }
    assert legacy == _names() | added


def test_a_ticket_narrows_to_what_it_names_and_the_newest_counts() -> None:
    """Ciphers and MACs each by themselves; triple DES is offered where it is named, with keys for a gigabyte."""
    old, new = SshOffer(encryption=("aes128-ctr",), mac=("hmac-sha1",)), SshOffer(encryption=("3des-cbc",))
    found = algorithms_for((old, new, SshOffer(profile="legacy")))
    assert (found.ciphers, found.macs, found.rekey_bytes) == (("3des-cbc",), ("hmac-sha1",), SHORT_REKEY_BYTES)
    assert algorithms_for((old,)).rekey_bytes == LONG_REKEY_BYTES
    assert found.exchanges[-1] == "diffie-hellman-group14-sha1"


def test_group_exchange_is_offered_last_and_where_it_is_wanted_alone() -> None:
    """With SHA-1 in legacy only; everything else is as it was."""
    legacy = (SshOffer(profile="legacy"),)
    for offers, added in (
        ((), ("diffie-hellman-group-exchange-sha256",)),
        (legacy, ("diffie-hellman-group-exchange-sha256", "diffie-hellman-group-exchange-sha1")),
    ):
        without, found = algorithms_for(offers), algorithms_for(offers, group_exchange=True)
        assert found == replace(without, exchanges=without.exchanges + added)
        assert module.GROUP_EXCHANGES.isdisjoint(without.exchanges)


@pytest.mark.parametrize(
    ("offer", "what"),
    [(SshOffer(encryption=("rot13",)), "expected a cipher of .*, found rot13"), (SshOffer(mac=("crc32",)), "a MAC of")],
)
def test_what_is_not_known_is_refused(offer: SshOffer, what: str) -> None:
    """A sweep must not measure something else than it asked for."""
    with pytest.raises(ValueError, match=what):
        algorithms_for((offer,))


def test_asyncssh_knows_every_name() -> None:
    """One that it does not know would make every connection fail."""
    known = {*asyncssh.encryption.get_encryption_algs(), *asyncssh.mac.get_mac_algs(), *asyncssh.kex.get_kex_algs()}
    legacy = algorithms_for((SshOffer(profile="legacy"),), group_exchange=True)
    ours = {*module.CIPHERS, *module.MACS, *legacy.exchanges}
    assert ours - {name.decode() for name in known} == set()


def test_one_room_knows_asyncssh() -> None:
    """And the lab, which is nobody's to ship; whoever has not the extra is told so by that room."""
    root = Path(flashferry.__file__).parent
    found = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        if re.search(r"^\s*(import|from) asyncssh", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found == {"sshserver", "lab"}
