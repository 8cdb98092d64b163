"""Global lines are told from what belongs to them and from text, as IOS tells them."""

from __future__ import annotations

import pytest

from templates.config_sections import ConfigNotUnderstood, global_lines, sections

TRAP = "ip tcp window-size 12345"

TEXTS = {
    "banner": f"banner motd ^C\nWelcome\n{TRAP}\n^C",
    "banner in one line": f"banner login ^C{TRAP}^C",
    "banner whose end stands behind text": f"banner exec ^CFirst\n{TRAP}\nlast^C",
    "banner with an end of file character": f"banner motd \x03\n{TRAP}\n\x03",
    "banner as typed": f"banner motd #\n{TRAP}\n#",
    "empty lines and a hash": f"banner incoming ^C\n\n!\nr1#\n{TRAP}\n\n^C",
    "message of a line": f"line vty 0 4\n refuse-message ^C\n{TRAP}\n^C\n login",
    "message of busy hosts": f"busy-message h1 ^C\n{TRAP}\n^C",
    "menu": f"menu ops title ^C\n{TRAP}\n^C",
    "AAA banner": f"aaa authentication banner ^C\n{TRAP}\n^C",
    "banner of a group": f"crypto isakmp client configuration group G\n banner ^C\n{TRAP}\n^C",
    "macro": f"macro name tune\n{TRAP}\nip tcp selective-ack\n@",
    "certificate": f"crypto pki certificate chain CA\n certificate ca 01\n  30820330\n{TRAP}\n  \tquit",
    "self-signed certificate": f"crypto pki certificate chain S\n certificate self-signed 01\n{TRAP}\n  quit",
    "key": f"crypto key pubkey-chain rsa\n addressed-key 192.0.2.1\n  key-string\n{TRAP}\n  quit",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_text_is_not_configuration(text):
    """What stands in a banner, a macro or a certificate is no line, though it stands in the first column."""
    found = global_lines(f"version 17.12\n{text}\nip tcp timestamp\nend\n")
    assert TRAP not in found
    assert "ip tcp selective-ack" not in found
    assert found[0] == "version 17.12"
    assert found[-2:] == ("ip tcp timestamp", "end")


@pytest.mark.parametrize(
    "line",
    [
        "alias exec shc show version | include ^Cisco",
        "crypto pki certificate chain S\n certificate self-signed 01 nvram:IOS-Self-Sig#1.cer",
        "key chain K\n key 1\n  key-string 7 0822455D0A16",
        "banner motd ^Cone line^C",
        "macro global description cisco-global",
        "interface Gi1\n description #1 ^ uplink\n macro description cisco-desktop",
        'event manager applet A\n action 1.0 cli command "show run | include ^C"',
    ],
)
def test_a_line_that_only_looks_like_the_beginning_of_text(line):
    """The configuration goes on behind it."""
    assert TRAP in global_lines(f"version 15.2\n{line}\n{TRAP}\nend\n")


def test_a_text_without_end_is_told():
    """Nobody can tell then which lines are commands, so none is taken for one."""
    with pytest.raises(ConfigNotUnderstood, match="begins with 'banner motd"):
        global_lines(f"version 15.2\nbanner motd ^C\n{TRAP}\nend\n")


def test_sections_keep_what_belongs_to_them():
    """Indented lines and text belong to the global line above; comments are sections of their own."""
    text = (
        "! stamp\nversion 15.2\nrouter bgp 1\n neighbor 192.0.2.1\n!\n address-family ipv4\n!\nbanner motd ^C\nhi\n^C"
    )
    found = sections(f"{text}\nend".replace("\n", "\r\n"))
    assert [(one.line, one.body) for one in found] == [
        ("! stamp", ()),
        ("version 15.2", ()),
        ("router bgp 1", (" neighbor 192.0.2.1", " address-family ipv4")),
        ("!", ()),
        ("!", ()),
        ("banner motd ^C", ("hi", "^C")),
        ("end", ()),
    ]
    assert [one.is_comment for one in found] == [True, False, False, True, True, False, False]


def test_no_configuration_has_no_sections():
    """Nothing in, nothing out."""
    assert sections("\r\n\r\n") == ()
