"""The device as an SSH client, without sockets: windows and their model, sink, SFTP, host keys, configuration."""

import re
import struct
from collections.abc import Callable
from typing import Any

import asyncssh
import pytest

from flashferry.lab.errors import data_names
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.standin.ssh_client.incoming import (
    OK,
    ScpHeader,
    ScpProtocolError,
    ScpRemoteError,
    ScpSink,
    SftpReader,
)
from flashferry.lab.standin.ssh_client.pull import KnownHosts, judge, no_match
from flashferry.lab.standin.ssh_client.settings import (
    is_due,
    load_figures,
    rate_bytes_per_s,
    refill_bytes,
    ssh_settings,
)

KINDS = data_names("flashferry.lab.standin.ssh_client.kinds")
PLATFORMS = data_names("flashferry.lab.standin.platforms")
LINK_BYTES_PER_S = 6_030_000.0


@pytest.mark.parametrize(
    ("refill", "window_bytes", "expected_bytes"),
    [
        ("half", 8192, 8192),  # one packet fills the window
        ("half", 131072, 98304),  # three of 32 KiB: two are just the half
        ("half", 2**21, 33 * 32768),
        ("three packets", 2**21, 4 * 32768),  # more than three, as OpenSSH compares
        ("three packets", 131072, 98304),  # the half comes first
        ("packet", 2**21, 32768),
    ],
)
def test_a_window_opens_by_its_rule(refill: Any, window_bytes: int, expected_bytes: int) -> None:
    """How much comes between two refills, in packets of 32 KiB or of the window."""
    packet_bytes = min(32768, window_bytes)
    assert refill_bytes(refill, window_bytes=window_bytes, packet_bytes=packet_bytes) == expected_bytes


def test_nothing_used_is_nothing_to_open() -> None:
    """No rule sends a window adjust of zero bytes (RFC 4254 5.2 leaves it without meaning)."""
    assert not any(is_due(rule, used_bytes=0, window_bytes=8192, packet_bytes=8192) for rule in ("half", "packet"))


@pytest.mark.parametrize(
    ("refill", "window_bytes", "expected_bytes_per_s"),
    [("half", 8192, 80_800), ("half", 131072, 886_700), ("half", 2**21, 6_030_000), ("packet", 131072, 1_243_000)],
)
def test_the_model_is_window_over_round_trip_less_what_the_rule_costs(
    refill: Any, window_bytes: int, expected_bytes_per_s: float
) -> None:
    """At 100 ms: 82 kB/s for 8 KiB less the time to send it; 128 KiB refilled at the half bring 0.89 of 1.31 MB/s."""
    rate = rate_bytes_per_s(
        refill, window_bytes=window_bytes, packet_bytes=min(32768, window_bytes), rtt_s=0.1,
        link_bytes_per_s=LINK_BYTES_PER_S,
    )  # fmt: skip
    assert rate == pytest.approx(expected_bytes_per_s, rel=0.001)


class Taken:
    """What a sink was told, and a file that is there or not."""

    def __init__(self, last: bytes = OK) -> None:
        self.headers: list[ScpHeader] = []
        self.content = b""
        self.last = last
        self.ends = 0

    def begin(self, header: ScpHeader) -> None:
        self.headers.append(header)

    def write(self, chunk: bytes) -> None:
        self.content += chunk

    def end(self) -> bytes:
        self.ends += 1
        return self.last


@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_the_sink_takes_a_file_however_it_is_cut(pieces: int) -> None:
    """Times are answered, the header and the end too; the last answer comes after the file is finished."""
    stream = b"T1700000000 0 1700000000 0\nC0777 4 testme.bin\nabcd\0"
    taken, answers = Taken(), b""

    def answer(data: bytes) -> None:
        nonlocal answers
        answers += data

    sink = ScpSink(answer, taken)
    sink.start()
    size = max(1, len(stream) // pieces)
    for at in range(0, len(stream), size):
        sink.feed(stream[at : at + size])
    assert (taken.content, taken.ends, answers) == (b"abcd", 1, OK * 4)
    assert taken.headers == [ScpHeader(line="C0777 4 testme.bin", size_bytes=4, name="testme.bin")]
    assert sink.is_done


def test_an_empty_file_has_an_end_too() -> None:
    """A size of zero: the byte behind it is still waited for."""
    taken = Taken()
    sink = ScpSink(lambda _: None, taken)
    sink.feed(b"C0644 0 x\n")
    assert taken.ends == 0
    sink.feed(OK)
    assert (taken.ends, taken.content) == (1, b"")


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (b"\1scp: /x: No such file or directory\n", ScpRemoteError),
        (b"\2fatal\n", ScpRemoteError),
        (b"C0644 3 x\nabc\1read error\n", ScpRemoteError),
        (b"D0755 0 folder\n", ScpProtocolError),
        (b"C0644 3 ../x\n", ScpProtocolError),
        (b"C0644 -3 x\n", ScpProtocolError),
        (b"x" * 5000, ScpProtocolError),
    ],
)
def test_the_sink_tells_what_is_wrong(stream: bytes, error: type[Exception]) -> None:
    """Errors of the source, folders, names with a path, sizes that are none, lines without an end."""
    taken = Taken()
    with pytest.raises(error):
        ScpSink(lambda _: None, taken).feed(stream)
    assert taken.ends == 0


class SftpServer:
    """The server's half of a download, with reads that bring less than was asked for."""

    def __init__(self, content: bytes, shortest: int) -> None:
        self.content = content
        self.shortest = shortest
        self.out: list[bytes] = []
        self.in_flight = self.most_under_way = 0

    def take(self, packet: bytes) -> None:
        kind, body = packet[4], packet[5:]
        if kind == 1:
            self._send(2, struct.pack("!I", 3))
            return
        number, body = body[:4], body[4:]
        if kind == 3:
            self._send(102, number + struct.pack("!I", 1) + b"h")
        elif kind == 8:
            self._send(105, number + struct.pack("!IQI", 5, len(self.content), 0o100644))
        elif kind == 5:
            offset, length = struct.unpack("!QI", body[5:])
            piece = self.content[offset : offset + max(1, length // self.shortest)]
            self.in_flight += 1
            self.most_under_way = max(self.most_under_way, self.in_flight)
            self._send(103, number + struct.pack("!I", len(piece)) + piece)
        else:
            self._send(101, number + struct.pack("!III", 0, 0, 0))

    def _send(self, kind: int, body: bytes) -> None:
        self.out.append(struct.pack("!IB", len(body) + 1, kind) + body)


@pytest.mark.parametrize(("requests", "shortest"), [(1, 1), (4, 1), (4, 3)])
def test_sftp_reads_ahead_and_puts_together(requests: int, shortest: int) -> None:
    """As many reads as the release has are under way, short ones are asked for again, and the file is whole."""
    server, taken = SftpServer(bytes(range(256)) * 40, shortest), Taken()
    reader = SftpReader("/dir/x.bin", server.take, taken, requests=requests, read_bytes=1000)
    reader.start()
    while server.out:
        packets, server.out, server.in_flight = server.out, [], 0
        for packet in packets:
            reader.feed(packet)
    assert taken.content == server.content
    assert taken.ends == 1
    assert reader.is_done
    assert server.most_under_way == requests
    assert taken.headers[0].line == f"C0644 {len(server.content)} x.bin"


def test_sftp_tells_what_the_server_said() -> None:
    """A status in place of a handle is the server's error, with its text."""
    reader = SftpReader("/x", lambda _: None, Taken(), requests=1, read_bytes=1000)
    reader.start()
    with pytest.raises(ScpRemoteError, match="No such file"):
        reader.feed(struct.pack("!IBIII", 9 + 4 + 12, 101, 1, 2, 12) + b"No such file")
    with pytest.raises(ScpProtocolError):
        reader.feed(b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    ("policy", "is_strict", "known", "expected"),
    [
        ("any", False, None, "take"), ("any", False, b"other", "take"), ("accept-new", False, None, "take"),
        ("accept-new", False, b"key", "take"), ("accept-new", False, b"other", "changed"),
        ("ask", False, None, "ask"), ("ask", False, b"other", "changed"),
        ("any", True, None, "unknown"), ("any", True, b"key", "take"), ("any", True, b"other", "changed"),
    ],
)  # fmt: skip
def test_a_host_key_is_judged(policy: Any, is_strict: bool, known: bytes | None, expected: str) -> None:
    """The platform's habit, and `ip ssh stricthostkeycheck` above it."""
    assert judge(policy, is_strict=is_strict, known=known, seen=b"key") == expected


def test_the_first_key_stays() -> None:
    """A device remembers the first key of a server, by address and port."""
    hosts = KnownHosts()
    hosts.remember(("198.18.0.1", 22), b"one")
    hosts.remember(("198.18.0.1", 22), b"two")
    assert hosts.key_of(("198.18.0.1", 22)) == b"one"
    assert hosts.key_of(("198.18.0.1", 2222)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_list_is_of_algorithms_that_there_are(kind: str) -> None:
    """Others would be refused when a copy begins; every cipher has a speed."""
    figures = load_figures(kind)
    assert set(figures.kex) <= {name.decode() for name in asyncssh.kex.get_kex_algs()}
    assert set(figures.encryption) <= {name.decode() for name in asyncssh.encryption.get_encryption_algs()}
    assert set(figures.mac) <= {name.decode() for name in asyncssh.mac.get_mac_algs()}
    assert set(figures.host_keys) <= {
        name.decode() for name in asyncssh.public_key.get_public_key_algs()
    }  # fmt: skip
    assert set(figures.crypto_bytes_per_s) == set(figures.encryption)


WINDOW_LINES = {
    "c2811-15.1": (False, False), "iosv-15.8": (False, False), "asr1006-16.3": (False, False),
    "csr1000v-16.11": (True, False), "isr4321-16.6": (True, False), "c9300-17.6": (True, True),
    "c8000v-17.15": (True, True), "c8000v-sdwan-17.15": (True, True), "iol-17.15": (True, True),
    "asr1006-dual-16.3": (False, False), "c9300-bundle-17.6": (True, True),
    "c9300-alone-bundle-17.6": (True, True), "c9300-eight-17.6": (True, True), "c9300-eight-bundle-17.6": (True, True),
}  # fmt: skip


@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_release_knows_its_own_lines(make_console: Callable[..., Any], platform: str) -> None:
    """`ip ssh window-size` since 16.6.1, bulk mode in 17: an older one refuses the word with a caret below it."""
    console = make_console(platform)
    enter = "config-transaction" if console.device.platform.is_controller_managed else "configure terminal"
    for word, is_known in zip(("window-size", "bulk-mode"), WINDOW_LINES[platform], strict=True):
        screen = console.type(enter, f"ip ssh {word} 262144")
        assert ("^\n% Invalid input detected at '^' marker." in screen) is not is_known


def window_of(console: Any) -> int:
    return ssh_settings(console.device.running, console.device.platform.ssh_client).window_bytes


def test_bulk_mode_is_a_line_of_the_stock_configuration(make_console: Callable[..., Any]) -> None:
    """17.15 starts with it; `no` is less than that, and the line put back is the start, to the letter."""
    console = make_console("c8000v-17.15")
    start = console.device.running.render()
    assert "\nip ssh bulk-mode 131072\nip ssh version 2\n" in start
    assert window_of(console) == 131072
    console.type("configure terminal", "no ip ssh bulk-mode")
    assert "bulk-mode" not in console.device.running.render()
    assert window_of(console) == 8192
    console.type("configure terminal", "ip ssh bulk-mode 2000000")
    assert window_of(console) == 2_000_000
    console.type("configure terminal", "ip ssh bulk-mode")
    assert console.device.running.render() == start


@pytest.mark.parametrize("value", ["131071", "1073741825", "many"])
def test_bulk_mode_out_of_range_is_refused(make_console: Callable[..., Any], value: str) -> None:
    """The line keeps its value."""
    console = make_console("iol-17.15")
    assert "% Invalid input" in console.type("configure terminal", f"ip ssh bulk-mode {value}")
    assert console.device.running.value("ip ssh bulk-mode") == "131072"


def test_algorithm_lines_are_the_list_of_the_client(make_console: Callable[..., Any]) -> None:
    """In their order, with the short names that IOS takes; without the line the release's list is back."""
    console = make_console("c8000v-17.15")
    stock = ssh_settings(console.device.running, console.device.platform.ssh_client)
    console.type(
        "configure terminal", "ip ssh client algorithm encryption aes256-ctr aes128-gcm",
        "ip ssh client algorithm mac hmac-sha2-256", "ip ssh client algorithm kex ecdh-sha2-nistp256",
    )  # fmt: skip
    now = ssh_settings(console.device.running, console.device.platform.ssh_client)
    assert now.encryption == ("aes256-ctr", "aes128-gcm@openssh.com")
    assert (now.mac, now.kex) == (("hmac-sha2-256",), ("ecdh-sha2-nistp256",))
    console.type("configure terminal", *(f"no ip ssh client algorithm {kind}" for kind in ("encryption", "mac", "kex")))
    assert ssh_settings(console.device.running, console.device.platform.ssh_client) == stock


def test_old_releases_offer_what_they_were_seen_to_offer() -> None:
    """A C2960C of 15.2 named these two key exchanges in its own log; CSR 16.8.1 has SHA-1 exchanges too."""
    old = ["diffie-hellman-group-exchange-sha1", "diffie-hellman-group14-sha1"]
    for name in ("iosv-15.8", "c2811-15.1", "csr1000v-16.11"):
        assert list(load_platform(name).ssh_client.kex) == old


def kexinit(*lists: str) -> bytes:
    packed = [struct.pack("!I", len(each)) + each.encode() for each in (*lists, *[""] * (10 - len(lists)))]
    return bytes([20, *range(16)]) + b"".join(packed) + bytes(5)


@pytest.mark.parametrize(
    ("lists", "logged"),
    [
        (("diffie-hellman-group14-sha1", "ssh-rsa", "aes128-ctr", "aes128-ctr", "hmac-sha1", "hmac-sha1"), None),
        (("curve25519-sha256", "ssh-rsa", "aes128-ctr", "aes128-ctr"), "kex algorithm"),
        (("diffie-hellman-group14-sha1", "ssh-ed25519", "", "aes128-ctr"), "hostkey algorithm"),
        (("diffie-hellman-group14-sha1", "ssh-rsa", "", "aes128-gcm@openssh.com"), "cipher"),
        (("diffie-hellman-group14-sha1", "ssh-rsa", "", "aes256-ctr,x", "", "umac-64@openssh.com"), "mac"),
    ],
)
def test_what_the_lists_have_not_in_common_is_logged(
    make_console: Callable[..., Any], lists: tuple[str, ...], logged: str | None
) -> None:
    """The sentence of %SSH-3-NO_MATCH: which kind, the client's list, the server's."""
    console = make_console("csr1000v-16.11")
    ours = ssh_settings(console.device.running, console.device.platform.ssh_client)
    text = no_match(ours, kexinit(*lists))
    assert re.findall(r"No matching (.+) found: client ", text) == ([logged] if logged else [])
    assert no_match(ours, b"") == ""


def test_the_password_of_scp_is_not_readable(make_console: Callable[..., Any]) -> None:
    """`ip scp password` is shown as type 7, and the copy knows it; a release without the line refuses it."""
    console = make_console("c8000v-17.15")
    console.type("configure terminal", "ip scp username porter", "ip scp password s3cret")
    assert "s3cret" not in console.device.running.render()
    assert console.device.client_credentials("ip scp") == ("porter", "s3cret")
    assert console.device.client_credentials("ip sftp") == (None, None)
    assert "% Invalid input" in make_console("csr1000v-16.11").type("configure terminal", "ip scp username porter")


@pytest.mark.parametrize(("platform", "requests"), [("c8000v-17.15", 64), ("csr1000v-16.11", 1), ("iosv-15.8", 1)])
def test_how_much_sftp_asks_for_is_a_figure_of_the_release(platform: str, requests: int) -> None:
    """Each read is a packet; both figures are assumed, and say so in the data."""
    figures = load_platform(platform).ssh_client
    assert (figures.sftp_requests, figures.packet_bytes) == (requests, 32768)
