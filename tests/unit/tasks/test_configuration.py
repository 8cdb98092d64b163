"""Proof of equality of two configurations, without keeping their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.configuration import difference, fingerprint

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


def test_another_order_is_a_difference():
    """The same lines in another order are not the same configuration (access lists)."""
    assert str(changed("permit a\ndeny b", "deny b\npermit a")) == "the same lines in another order"


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
