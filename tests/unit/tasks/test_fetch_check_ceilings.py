"""What is told before a copy of how fast it can be at most, by each protocol."""

from __future__ import annotations

import pytest

from flashferry.devices.platforms.ios import IOS, IOS_XE
from flashferry.tcp.ssh_channel_window import Limit
from flashferry.transports import TRANSPORTS, transport_named
from tasks.fetch_check import Ceiling, announce, announce_choice, ceilings
from tasks.tcp_config import TcpLines

STOCK_17 = ("ip ssh bulk-mode 131072",)


def found(*lines: str, release: str = "16.9.4", names: tuple[str, ...] = ("http", "scp"), **how) -> dict[str, Ceiling]:
    given = {
        "platform": IOS_XE,
        "window_bytes": 1_250_000,
        "rtt_s": 0.1,
        "link_rate_bps": 49e6,
    } | how
    all_of_them = ceilings(
        TcpLines(lines=lines), release=release, transports=[transport_named(name) for name in names], **given
    )
    return {one.transport: one for one in all_of_them}


@pytest.mark.parametrize(
    ("release", "lines", "most", "limit", "untuned"),
    [
        ("16.3.1", (), 81_920, Limit.SSH_WINDOW, 81_920),
        ("16.9.4", (), 1_310_720, Limit.SSH_WINDOW, 81_920),
        ("16.9.4", ("ip ssh window-size 65536",), 1_310_720, Limit.SSH_WINDOW, 149_000),
        ("17.6.5", (), 5.96e6, Limit.LINK, 81_920),
        ("17.12.4", STOCK_17, 5.96e6, Limit.LINK, 149_000),
        ("17.12.4", ("no ip ssh bulk-mode",), 5.96e6, Limit.LINK, 81_920),
        ("", (), 81_920, Limit.SSH_WINDOW, 81_920),
        ("", STOCK_17, 5.96e6, Limit.LINK, 149_000),
    ],
)
def test_scp_by_release(release, lines, most, limit, untuned):
    """What a release is taken to know is taken to be set; one that nobody knows is taken to know nothing."""
    scp = found(*lines, release=release)["scp"]
    assert scp.bytes_per_s == pytest.approx(most, rel=0.01)
    assert scp.limit is limit
    assert scp.untuned_bytes_per_s == pytest.approx(untuned, rel=0.01)
    assert scp.likely_bytes_per_s <= scp.bytes_per_s


def test_untuned_nothing_is_taken_to_be_set():
    """`--no-tune`: both windows are what they are."""
    scp, http = found(*STOCK_17, release="17.12.4", window_bytes=None, names=("scp", "http")).values()
    assert (scp.limit, scp.channel_window_bytes, scp.tcp_window_bytes) == (Limit.TCP_WINDOW, 131_072, 14_900)
    assert scp.bytes_per_s == scp.untuned_bytes_per_s == http.bytes_per_s == 149_000
    assert http.channel_window_bytes is None
    assert http.is_assumed


def test_what_is_assumed_says_so():
    """A window that nobody saw on IOS 15, a round-trip time that nobody measured; the link needs neither."""
    ios = found(platform=IOS, release="15.2")
    assert ios["scp"].reason == "SSH window of 8192 bytes, assumed"
    assert ios["http"].reason == "its link"
    assert found(*STOCK_17, release="17.12.4", rtt_s=None, link_rate_bps=None)["scp"].is_assumed
    assert not found(*STOCK_17, release="17.12.4", link_rate_bps=None)["scp"].is_assumed


def test_the_sentence():
    """The slowest first, each with what it comes from."""
    told = announce(found(release="16.3.1").values())
    assert (
        told == "SCP will run at most at 82 kB/s here (SSH window of 8192 bytes, assumed); HTTP at 6.0 MB/s (its link)"
    )
    assert announce(()) == ""


def test_every_transport_has_one():
    """In the order in which they were asked for."""
    names = tuple(one.name for one in TRANSPORTS)
    assert tuple(found(names=names)) == names


def test_the_sentence_before_a_copy_that_had_a_choice():
    """By which it goes comes first, then what it would have by the others: one sentence."""
    each = found(release="16.3.1").values()
    assert announce_choice(each, "http") == (
        "the copy goes by HTTP, here at most at 6.0 MB/s (its link); it would go by SCP at most at 82 kB/s (SSH window "
        "of 8192 bytes, assumed)"
    )
    assert announce_choice(found(release="16.3.1", names=("scp",)).values(), "scp") == (
        "the copy goes by SCP, here at most at 82 kB/s (SSH window of 8192 bytes, assumed)"
    )
    assert announce_choice(each, "ftp") == announce_choice((), "scp") == ""
