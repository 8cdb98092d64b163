"""Proof of equality of two configurations, without keeping their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.read_config import difference, fingerprint, holds_syslog, new_lines

CONFIG = (Path(__file__).parents[2] / "captures" / "config" / "csr1000v.txt").read_text()
SALT = "00ff"


def changed(before: str, after: str):
    return difference(fingerprint(before, salt=SALT), after, salt=SALT)


def test_the_same_configuration_is_equal():
    """Two readings of an unchanged device are equal, also with other line ends."""
    assert not changed(CONFIG, CONFIG.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "! Last configuration change at 14:23:07 UTC Mon Jan 1 2024 by a",
            "! Last configuration change at 15:00:00 UTC Mon Jan 1 2024 by b",
        ),
        ("Current configuration : 4818 bytes", "Current configuration : 4850 bytes"),
        ("ntp clock-period 17179865", "ntp clock-period 17179870"),
        ("! NVRAM config last updated at 14:23:07 UTC Mon Jan 1 2024", "! No configuration change since last restart"),
        ("! Letzte Änderung 14:23:07", "!Running configuration last done at: 2026-11-22"),
        (
            "Current configuration: 4818 bytes (compressed)\nversion 15.2",
            "Uncompressed configuration from 3 kB\nversion 15.2",
        ),
        ("Something in other words 12:00\nversion 15.2", "Something in other words 13:00\nversion 15.2"),
    ],
)
def test_stamps_are_no_difference(before, after):
    """Lines that change by themselves do not count."""
    assert not changed(f"{before}\nhostname r1\n", f"{after}\nhostname r1\n")


def test_a_new_line_is_named():
    """A line that was not there is shown."""
    found = changed("hostname r1\nend", "hostname r1\nip tcp selective-ack\nend")
    assert found.added == ("ip tcp selective-ack",)
    assert str(found) == "new: 'ip tcp selective-ack'; gone: none"


def test_a_line_that_is_gone_is_counted():
    """Only digests are kept, so a missing line can be counted, not named."""
    assert str(changed("hostname r1\nip http server\nend", "hostname r1\nend")) == "none new; gone: 1"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("access-list 1 permit host a\naccess-list 1 deny any", "access-list 1 deny any\naccess-list 1 permit host a"),
        ("boot system flash:a\nboot system flash:b", "boot system flash:b\nboot system flash:a"),
        ("ip access-list standard A\n permit a\n deny any", "ip access-list standard A\n deny any\n permit a"),
        ("banner motd ^C\na\nb\n^C", "banner motd ^C\nb\na\n^C"),
        ("interface Gi1\n shutdown\ninterface Gi2\n mtu 1500", "interface Gi1\n mtu 1500\ninterface Gi2\n shutdown"),
    ],
)  # fmt: skip
def test_another_order_that_means_something_is_a_difference(before, after):
    """Access lists, what is to be booted, text, and lines that went to another section."""
    assert (
        str(changed(f"version 15.2\n{before}\nend", f"version 15.2\n{after}\nend")) == "the same lines in another order"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ip tcp mss 1000\nip http server", "ip http server\nip tcp mss 1000"),
        ("interface Gi1\n shutdown\ninterface Gi2\n mtu 9000", "interface Gi2\n mtu 9000\ninterface Gi1\n shutdown"),
        ("interface Gi1\n shutdown\n mtu 9000", "interface Gi1\n mtu 9000\n shutdown"),
        ("access-list 1 permit any\naccess-list 2 permit any", "access-list 2 permit any\naccess-list 1 permit any"),
        ("ip http server\n!\n!\nip tcp mss 1000", "ip http server\nip tcp mss 1000\n!"),
    ],
)  # fmt: skip
def test_another_order_that_means_nothing_is_none(before, after):
    """A release may print its sections in another order each time."""
    assert not changed(f"version 15.2\n{before}\nend", f"version 15.2\n{after}\nend")


def test_a_separator_in_a_section_is_no_end_of_it():
    """What is indented behind `!` belongs to the command above it, whether the separator is printed or not."""
    assert not changed(
        "router bgp 1\n neighbor a\n!\n address-family ipv4\nend",
        "router bgp 1\n neighbor a\n address-family ipv4\nend",
    )


def test_a_log_line_in_the_output_is_told():
    """Whole, it does not count; glued to a line of the configuration it makes another reading necessary."""
    log = "*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from console by bob"
    assert not changed("version 15.2\nhostname r1\nend", f"version 15.2\n{log}\nhostname r1\nend")
    glued = f"version 15.2\nhostname r1{log}\nend"
    assert changed("version 15.2\nhostname r1\nend", glued)
    assert holds_syslog(glued)
    assert not holds_syslog(CONFIG + '\nevent manager applet A\n event syslog pattern "%SYS-5-CONFIG_I:"\n')


def test_the_new_lines_in_full():
    """Whoever looks for its own line in other words sees what is new in the first column, not text of a banner."""
    now = "version 15.2\nbanner motd ^C\nip tcp mss 9\n^C\ntcp window 1250000\nend"
    assert new_lines(fingerprint("version 15.2\nend", salt=SALT), now, salt=SALT) == (
        "banner motd ^C",
        "tcp window 1250000",
    )


def test_a_repeated_line_counts_as_often_as_it_stands():
    """`exit-address-family` stands many times: one more is one more."""
    assert changed("x\nx", "x\nx\nx").added == ("x",)


@pytest.mark.parametrize(
    "line",
    [
        "username admin secret 9 $9$S3cret",
        "snmp-server community S3cret RO",
        " password S3cret",
        " key S3cret",
        "  key-string S3cret",
        "snmp-server host 10.9.9.9 version 2c S3cret",
        " path ftp://bob:S3cret@10.0.0.9/cfg",
        "tacacs-server key 7 S3cret",
        "enable secret 5 S3cret",
        " neighbor 10.0.0.1 password S3cret",
        "crypto isakmp key S3cret address 10.0.0.1",
    ],
)
def test_neither_fingerprint_nor_difference_shows_a_secret(line):
    """No line's text is in the fingerprint, and of a new line only its leading keywords are shown."""
    assert "S3cret" not in repr(fingerprint(f"hostname r1\n{line}\n", salt=SALT))
    found = changed("hostname r1\n", f"hostname r1\n{line}\n")
    assert found.added
    assert "S3cret" not in str(found) + repr(found)


def test_our_own_lines_are_shown_whole():
    """An `ip tcp` line that is left over is named in full."""
    assert changed("hostname r1", "hostname r1\nno ip tcp selective-ack").added == ("no ip tcp selective-ack",)


def test_the_salt_keeps_equal_lines_of_two_devices_apart():
    """The same configuration with another salt has nothing in common."""
    one, two = fingerprint(CONFIG, salt="1"), fingerprint(CONFIG, salt="2")
    assert one.whole != two.whole
    assert not set(one.lines) & set(two.lines)
