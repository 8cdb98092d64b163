"""Values that configuration lines are known to keep secret, whoever's they are."""

from __future__ import annotations

import pytest

from flashferry.core.redaction import MASK
from flashferry.devices.masked_stream import without_secrets

V = "S0me.Value/x"


@pytest.mark.parametrize(
    ("before", "value"),
    [
        ("username bob privilege 15 secret 9 ", "$9$Q/8Vi3hR8cL78.$WQ7gjIYrYtziObyBPKFUu6YC70w6vQfL.3zV67UiAwA"),
        ("username bob password 0 ", f"two words {V}"),
        ("+username bob password ", V),
        ("enable secret level 5 5 ", "$1$abcd$0123456789"),
        ("enable password 7 ", "0822455D0A16"),
        ("snmp-server community ", f"{V} RO 10"),
        ("snmp-server host 192.0.2.1 ", f"informs version 2c {V}"),
        ("snmp-server user bob group v3 auth sha ", f"{V} priv aes 128 {V}"),
        ("tacacs-server host 192.0.2.1 key ", V),
        ("radius-server key 7 ", "0822455D0A16"),
        (" key ", V),
        (" key 6 ", V),
        ("  key-string 7 ", "0822455D0A16"),
        ("crypto isakmp key ", f"{V} address 0.0.0.0"),
        (" pre-shared-key local ", V),
        ("ntp authentication-key 1 ", f"md5 {V} 7"),
        (" ip ospf message-digest-key 1 ", f"md5 7 {V}"),
        (" standby 1 authentication ", V),
        (" vrrp 1 authentication text ", V),
        (" neighbor 192.0.2.1 password 7 ", V),
        (" ppp chap password 0 ", V),
        (" isis password ", f"{V} level-1"),
        (" wpa-psk ascii 0 ", V),
        ("ip http client password 0 ", V),
        ("event manager environment _mail_password ", V),
        ("*Sep 13 09:24:43.803: %PARSER-5-CFGLOG_LOGGEDCMD: User:x  logged command:username y secret 0 ", V),
        ("r1(config)#enable secret 0 ", V),
    ],
)
def test_a_value_is_masked(before, value):
    """The whole value is, up to the line's end, and nothing of what stands in front of it or on other lines."""
    found = without_secrets(f"hostname r1\r\n{before}{value}\r\ninterface Gi1\r\n")
    first, line, *rest = found.split("\r\n")
    assert (first, rest) == ("hostname r1", ["interface Gi1", ""])
    assert line.endswith(MASK)
    assert before.startswith(line.removesuffix(MASK))
    assert len(line) > 6
    assert not any(part in line for part in (V, *value.split()) if len(part) > 4 and part not in before)


@pytest.mark.parametrize(
    "line",
    [
        "service password-encryption",
        "key chain SITES",
        "crypto key generate rsa modulus 2048",
        "ip ssh rsa keypair-name r1",
        "aaa authentication login default local",
        "configuration register is 0x2102; the password-recovery mechanism is enabled.",
        "Password: ",
        " send-community both",
        "verify /md5 flash:image.bin 0123456789abcdef0123456789abcdef",
        "ip tcp window-size 65535",
        "Press any key to continue",
        'System image file is "flash:image.bin"',
    ],
)
def test_other_lines_are_left(line):
    """What only has such a word in it is shown as it is."""
    assert without_secrets(line) == line
