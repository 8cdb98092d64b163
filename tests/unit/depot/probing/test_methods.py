"""Methods as commands: nobody is asked, keys have to be known, and no word is taken for another."""

import pytest

from flashferry.depot.probing.methods import Ends, Method, SshAccess, commands_of

ACCESS = SshAccess(host="h", user="u", port=2222, identity="/k", known_hosts="/kh")
PULL = Ends(here="/here/a b", far="/far/i'mage", direction="pull", port=5201)
PUSH = Ends(here="/here/a b", far="/far/i'mage", direction="push", port=5201)


def settings(words: tuple[str, ...]) -> list[str]:
    return [words[number + 1] for number, word in enumerate(words) if word == "-o"]


@pytest.mark.parametrize("name", ["scp", "scp -O", "sftp", "dd"])
@pytest.mark.parametrize("ends", [PULL, PUSH])
def test_host_keys_are_strict_and_nobody_is_asked(name, ends):
    """Whatever ssh_config says."""
    method = Method(name=name, cipher="aes128-ctr", mac="hmac-sha1")
    found = [words for words in commands_of(method, ACCESS, ends).pipeline if words[0] != "dd"]
    assert len(found) == 1
    said = settings(found[0])
    wanted = {"BatchMode=yes", "StrictHostKeyChecking=yes", "UserKnownHostsFile=/kh", "Port=2222", "IdentitiesOnly=yes"}
    assert wanted | {"Ciphers=aes128-ctr", "MACs=hmac-sha1", "Compression=no", "ControlPath=none"} <= set(said)


def test_rsync_hands_its_shell_the_same():
    """Quoted, for rsync takes it apart again."""
    (words,) = commands_of(Method(name="rsync", compress=True), ACCESS, PULL).pipeline
    shell = words[words.index("-e") + 1]
    assert "StrictHostKeyChecking=yes" in shell
    assert "Compression=yes" in shell
    assert words[-2:] == ("u@h:/far/i'mage", "/here/a b")


def test_a_file_goes_the_way_that_is_asked():
    """From there to here, or from here to there."""
    (pull,), (push,) = (commands_of(Method(name="scp"), ACCESS, ends).pipeline for ends in (PULL, PUSH))
    assert pull[-2:] == ("u@h:/far/i'mage", "/here/a b")
    assert push[-2:] == ("/here/a b", "u@h:/far/i'mage")


def test_sftp_reads_its_batch_and_paths_are_quoted():
    """A blank in a path is no end of it."""
    found = commands_of(Method(name="sftp"), ACCESS, PULL)
    assert found.stdin == 'get "/far/i\'mage" "/here/a b"\n'


def test_a_pipe_compresses_where_the_data_is():
    """And takes it apart at the other end, so that only the compressed bytes cross the link."""
    method = Method(name="dd", squeeze="pigz", block_bytes=4096)
    ssh, apart, dd = commands_of(method, ACCESS, PULL).pipeline
    assert ssh[-1] == "dd if='/far/i'\"'\"'mage' bs=4096 2>/dev/null | pigz -c"
    assert apart == ("pigz", "-dc")
    assert dd == ("dd", "of=/here/a b", "bs=4096", "iflag=fullblock")
    first, second, last = commands_of(method, ACCESS, PUSH).pipeline
    assert (first[0], second[:1], last[-1].split(" | ")[0]) == ("dd", ("pigz",), "pigz -dc")


@pytest.mark.parametrize(("ends", "sends", "option"), [(PULL, "dd if=", "-d"), (PUSH, "nc -l 5201 | dd of=", "-N")])
def test_nc_listens_at_the_far_end(ends, sends, option):
    """This end dials, so that no port of ours is opened; who sends closes, and who receives reads nothing."""
    found = commands_of(Method(name="nc"), ACCESS, ends)
    assert found.first_far.startswith(sends)
    assert any(words[:4] == ("nc", option, "h", "5201") for words in found.pipeline)


def test_an_unknown_method_is_no_command():
    """HTTP has none."""
    with pytest.raises(ValueError, match="no commands for 'http'"):
        commands_of(Method(name="http"), ACCESS, PULL)


def test_keys_tell_methods_apart():
    """Whatever differs stands in the key; the usual is left out."""
    keys = {
        Method(name="scp", cipher="c").key,
        Method(name="scp", cipher="c", mac="m").key,
        Method(name="scp", cipher="c", compress=True).key,
        Method(name="dd", cipher="c").key,
        Method(name="dd", cipher="c", block_bytes=512).key,
        Method(name="dd", cipher="c", squeeze="gzip").key,
        Method(name="http", control="bbr").key,
        Method(name="http").key,
    }
    assert len(keys) == 8
    assert Method(name="scp", cipher="c", mac="m").of_nothing == Method(name="scp", cipher="x", data="holes").of_nothing


def test_an_ipv6_address_stands_in_brackets_where_a_colon_follows():
    """Its first group would be taken for the host."""
    access = SshAccess(host="2001:db8::1", user="u", port=22)
    (words,) = commands_of(Method(name="scp"), access, PULL).pipeline
    assert words[-2].startswith("u@[2001:db8::1]:/far")
    assert access.ssh()[-1] == "u@2001:db8::1"
    assert access.shown == "u@[2001:db8::1]:22"
