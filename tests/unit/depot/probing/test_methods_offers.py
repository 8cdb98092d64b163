"""What both ends of SSH have: OpenSSH's own words read, and each refusal told in a sentence."""

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.probing.methods import authenticates_itself, common, names_in, proposal_in, refusal_in

# OpenSSH 9.2 towards a server that was told `Ciphers aes128-ctr,aes256-gcm@openssh.com`; lists shortened.
VERBOSE = """\
debug1: SSH2_MSG_KEXINIT sent
debug1: SSH2_MSG_KEXINIT received
debug2: local client KEXINIT proposal
debug2: KEX algorithms: curve25519-sha256,ext-info-c
debug2: ciphers ctos: chacha20-poly1305@openssh.com,aes128-ctr
debug2: ciphers stoc: chacha20-poly1305@openssh.com,aes128-ctr
debug2: MACs ctos: umac-64-etm@openssh.com,hmac-sha2-256
debug2: compression ctos: none,zlib@openssh.com,zlib
debug2: peer server KEXINIT proposal
debug2: KEX algorithms: curve25519-sha256
debug2: ciphers ctos: aes128-ctr,aes256-gcm@openssh.com
debug2: ciphers stoc: aes128-ctr,aes256-gcm@openssh.com
debug2: MACs ctos: hmac-sha2-256,hmac-sha2-512
debug2: MACs stoc: hmac-sha2-256,hmac-sha2-512
debug2: compression ctos: none,zlib@openssh.com
debug2: compression stoc: none,zlib@openssh.com
debug1: kex: algorithm: curve25519-sha256
"""


def test_the_servers_lists_are_read_and_not_ours():
    """The peer's proposal stands behind our own, in the same words."""
    found = proposal_in(VERBOSE)
    assert found is not None
    assert found.ciphers == ("aes128-ctr", "aes256-gcm@openssh.com")
    assert found.macs == ("hmac-sha2-256", "hmac-sha2-512")
    assert found.compression == ("none", "zlib@openssh.com")


@pytest.mark.parametrize(
    "text", ["", VERBOSE.partition("debug2: peer server")[0], "debug2: peer server KEXINIT proposal"]
)
def test_a_server_that_never_proposed_is_told_apart(text):
    """Where the line broke before, there is no list, and not an empty one."""
    assert proposal_in(text) is None


def test_names_that_are_none_are_passed_over():
    """What a peer sends is put into a command line: an option among the names must not get there."""
    text = VERBOSE.replace("ctos: aes128-ctr,aes256", "ctos: -oProxyCommand=x,aes128-ctr,$(x),aes256")
    found = proposal_in(text)
    assert found is not None
    assert found.ciphers == ("aes128-ctr", "aes256-gcm@openssh.com")


def test_own_names_are_lines():
    """As `ssh -Q` prints them."""
    assert names_in("3des-cbc\naes128-ctr\n\n") == ("3des-cbc", "aes128-ctr")


def test_what_both_have_is_in_our_order_and_the_rest_is_told():
    """What is left out at either end is said."""
    theirs = proposal_in(VERBOSE)
    assert theirs is not None
    offers = common(("3des-cbc", "aes256-gcm@openssh.com", "aes128-ctr"), ("hmac-md5", "hmac-sha2-256"), theirs, at="h")
    assert offers.ciphers == ("aes256-gcm@openssh.com", "aes128-ctr")
    assert offers.macs == ("hmac-sha2-256",)
    assert offers.compresses
    assert offers.not_theirs == ("3des-cbc", "hmac-md5")
    assert offers.not_ours == ("hmac-sha2-512",)
    assert [text.partition(":")[2].strip() for text in offers.refusals()] == ["3des-cbc, hmac-md5", "hmac-sha2-512"]


def test_no_cipher_in_common_is_refused_with_both_lists():
    """The operator sees what each end has."""
    theirs = proposal_in(VERBOSE)
    assert theirs is not None
    with pytest.raises(ConfigInvalid, match=r"proposes aes128-ctr, .*; ours|proposes aes128-ctr, .*ours are 3des-cbc"):
        common(("3des-cbc",), (), theirs, at="h")


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("Host key verification failed.", "its host key is not known here"),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "expected the host key that is known, found another one",
        ),
        ("root@h: Permission denied (publickey).", "the login was refused"),
        ("ssh: connect to host h port 22: Connection refused", "nothing listens there"),
        ("ssh: connect to host h port 22: Connection timed out", "it did not answer in time"),
        ("ssh: Could not resolve hostname h: Name or service not known", "there is no host of that name"),
        (
            "Unable to negotiate with h port 22: no matching cipher found. Their offer: aes128-cbc,3des-cbc",
            "no cipher in common: the source offers aes128-cbc,3des-cbc",
        ),
        ("debug1: x\nsomething new\ndebug1: y", "expected a login by ssh, found: something new"),
        ("", "expected a login by ssh, found: no word"),
    ],
)
def test_each_refusal_is_one_sentence(printed, told):
    """What ssh printed, in words for who has to act."""
    error = refusal_in(printed, at="u@h")
    assert str(error).startswith("u@h: ")
    assert told in str(error)
    assert error.hint


@pytest.mark.parametrize(
    ("name", "is_so"),
    [
        ("aes128-gcm@openssh.com", True),
        ("chacha20-poly1305@openssh.com", True),
        ("aes128-ctr", False),
        ("3des-cbc", False),
    ],
)
def test_a_mac_goes_with_ctr_and_cbc_alone(name, is_so):
    """The others bring their own."""
    assert authenticates_itself(name) is is_so
