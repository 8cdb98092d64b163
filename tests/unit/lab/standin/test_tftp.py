"""The stand-in's TFTP server: what its lines name, to whom their lists permit, in blocks as agreed upon."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from flashferry.lab.standin import tftp
from flashferry.lab.standin.configuration import Line
from flashferry.lab.standin.tftp import permits
from tests.patience import PATIENCE_S
from tests.unit.lab.standin.console import Console

READ, DATA, ACK, ERROR, OACK = 1, 3, 4, 5, 6
CONTENT = bytes(range(256)) * 10


@pytest.fixture
def serving(make_console: Callable[..., Console], monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    """A device on this host's loopback, on a port that needs no right."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setattr(tftp, "PORT", free.getsockname()[1])
    console = make_console(address="127.0.0.1")
    console.device.flash.write("x.bin", CONTENT)
    yield console
    console.device.tftp.stop()


def configured(console: Console, *lines: str) -> str:
    return console.type("configure terminal", *lines, "end")


class Client:
    """A client of TFTP that takes a file block by block."""

    def __init__(self) -> None:
        self._channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._channel.settimeout(PATIENCE_S)

    def fetch(self, name: str, *options: str, block_bytes: int = 512) -> bytes:
        """Return the file; an error packet is an AssertionError with its number."""
        words = "\0".join((name, "octet", *options))
        with self._channel as channel:
            channel.sendto(struct.pack("!H", READ) + words.encode() + b"\0", ("127.0.0.1", tftp.PORT))
            content, self.answered = b"", b""
            while True:
                packet, peer = channel.recvfrom(65535)
                kind, number = struct.unpack("!HH", packet[:4])
                assert kind != ERROR, number
                if kind == OACK:
                    self.answered, number = packet[2:], 0
                else:
                    content += packet[4:]
                channel.sendto(struct.pack("!HH", ACK, number), peer)
                if kind == DATA and len(packet) - 4 < block_bytes:
                    return content


def test_it_serves_what_its_line_names(serving):
    """In blocks of 512 bytes where nothing else is asked for; a file that no line names is not there."""
    configured(serving, "tftp-server bootflash:x.bin")
    assert Client().fetch("x.bin") == CONTENT
    with pytest.raises(AssertionError, match="1"):
        Client().fetch("y.bin")


def test_larger_blocks_are_agreed_upon(serving):
    """RFC 2348: the server answers with what it takes, no more than 8192."""
    configured(serving, "tftp-server bootflash:x.bin")
    client = Client()
    assert client.fetch("x.bin", "blksize", "65464", "tsize", "0", block_bytes=8192) == CONTENT
    assert client.answered == b"blksize\x008192\x00tsize\x002560\x00"


def test_a_list_decides_who_gets_it(serving):
    """Who is not in it is refused; without a list behind the number everybody gets it."""
    configured(serving, "access-list 99 remark mine", "tftp-server bootflash:x.bin 99")
    with pytest.raises(AssertionError, match="2"):
        Client().fetch("x.bin")
    configured(serving, "access-list 99 permit host 127.0.0.1")
    assert Client().fetch("x.bin") == CONTENT
    configured(serving, "no access-list 99")
    assert Client().fetch("x.bin") == CONTENT


def test_lines_as_the_device_shows_them_and_takes_them_back(serving):
    """A `host` is not shown; `no` takes the whole list, and a file without its list's number."""
    before = serving.device.running.render()
    configured(
        serving, "access-list 99 remark mine", "access-list 99 permit host 10.0.0.1", "tftp-server flash:x.bin 99"
    )
    shown = serving.device.running.render()
    assert "access-list 99 permit 10.0.0.1\n" in shown
    assert "tftp-server flash:x.bin 99\n" in shown
    configured(serving, "no tftp-server flash:x.bin", "no access-list 99 permit host 10.0.0.1")
    assert serving.device.running.render() == before


def test_other_lists_stay(serving):
    """Number 9 is not number 99, and an extended list keeps its words."""
    configured(serving, "access-list 9 permit host 10.0.0.9", "access-list 101 permit ip host 10.0.0.1 any")
    said = configured(serving, "access-list 99 permit any", "no access-list 99")
    assert "% Incomplete" not in said, said
    lines = [line.text for line in serving.device.running.lines()]
    assert "access-list 9 permit 10.0.0.9" in lines
    assert "access-list 101 permit ip host 10.0.0.1 any" in lines
    assert not [line for line in lines if line.startswith("access-list 99")]


def test_wrong_bytes_are_a_fault(serving):
    """One byte of what it serves differs; its flash is as it was."""
    configured(serving, "tftp-server bootflash:x.bin")
    serving.device.faults = serving.device.faults.with_switches({"tftp_serves_wrong_bytes": True})
    found = Client().fetch("x.bin")
    assert (found[0], found[1:]) == (CONTENT[0] ^ 0xFF, CONTENT[1:])


@pytest.mark.parametrize(
    ("rows", "is_permitted"),
    [
        (("access-list 9 permit 10.0.0.1",), True),
        (("access-list 9 deny 10.0.0.1", "access-list 9 permit any"), False),
        (("access-list 9 permit 10.0.0.2",), False),
        (("access-list 9 remark 10.0.0.1",), False),
        (("access-list 8 permit 10.0.0.2",), True),
    ],
)
def test_a_list_is_read_from_its_top(rows, is_permitted):
    """The first row that is about the address counts; behind the last one all are denied."""
    assert permits([Line(row) for row in rows], "9", "10.0.0.1") is is_permitted


def test_a_list_may_be_shown_as_a_section():
    """As newer releases do."""
    head = Line("ip access-list standard 9", [Line("10 remark mine"), Line("20 permit 10.0.0.1")])
    assert (permits([head], "9", "10.0.0.1"), permits([head], "9", "10.0.0.2")) == (True, False)
