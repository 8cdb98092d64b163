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
    "event macro": f"macro auto execute LINK {{\nif [[ $LINKUP == YES ]]\nconf t\n{TRAP}\nend\nfi\n}}",
    "event macro with braces": f"macro auto execute E remote x {{\nfunction f {{\necho ${{X}}\n}}\n{TRAP}\n}}",
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
        "interface Gi1\n description uplink {",
        "snmp-server location row 7 #",
        "alias exec shc show version | include ^Cisco\nbanner motd ^Chi^C",
        "crypto pki certificate pool\n certificate ca 01\n  30820330\n  \tquit",
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


UNKNOWN = {
    "braces": f"service-script X {{\n{TRAP}\nend\n}}",
    "braces in a section": f"call-home\n body X {{\n{TRAP}\n}}",
    "one sign": f"exec-note #\n{TRAP}\n#",
    "a control character": f"exec-note ^G\n{TRAP}\n^G",
    "glued": f"exec-note ^CFirst\n{TRAP}\nlast^C",
}


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN)
def test_what_may_be_a_text_of_an_unknown_kind_is_in_doubt(text):
    """It begins and ends as texts do: no line of it is taken for a command, and each is marked."""
    configuration = f"version 17.12\n{text}\nip tcp timestamp\nend\n"
    found = global_lines(configuration)
    assert TRAP not in found
    assert found[-2:] == ("ip tcp timestamp", "end")
    assert TRAP in [one.line for one in sections(configuration) if one.is_doubtful]


def test_a_brace_that_nothing_closes_puts_what_follows_in_doubt():
    """Up to the separator that IOS writes between commands; a line of ours in between is not taken for one."""
    configuration = f"version 17.12\nservice-script X {{\n{TRAP}\n!\nip tcp timestamp\nend\n"
    assert global_lines(configuration) == ("version 17.12", "service-script X {", "ip tcp timestamp", "end")
    cut = f"version 17.12\nservice-script X {{\n{TRAP}\n"
    assert global_lines(cut) == ("version 17.12", "service-script X {")


@pytest.mark.parametrize("end", ["}", "@", "quit", "^C", "\x03", "#", "%", "^G", "ABCD\n  quit"])
def test_an_end_without_a_beginning_is_told(end):
    """A text of an unknown kind was read as configuration: which lines are commands cannot be told."""
    with pytest.raises(ConfigNotUnderstood, match="whose beginning is not known"):
        sections(f"version 15.2\nexec-blob 1\n{TRAP}\n{end}\nend\n")


def test_a_doubt_that_spans_commands_is_told():
    """A brace that a description ends with, and one much later: what lies between may be either."""
    with pytest.raises(ConfigNotUnderstood, match="commands may stand in it"):
        sections(f"version 15.2\ninterface Gi1\n description x {{\n!\n{TRAP}\n}}\nend\n")


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
