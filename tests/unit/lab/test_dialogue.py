"""Typing, filtering, FTP replies and result lines, without any I/O."""

from datetime import UTC, datetime

import pytest

from flashferry.lab.standin import clock
from flashferry.lab.standin.device_tcp import OptionsGate, SynOptions, tcp_settings
from flashferry.lab.standin.ftp_client import FtpProtocolError, ReplyReader, announced_size, passive_address
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.standin.server_url import PullResult, ServerUrl, parse_url, result_line
from flashferry.lab.standin.terminal import Ended, LineEditor, line_columns
from flashferry.lab.standin.vty import BadFilterError, filter_text, split_pipe
from tests.patience import PATIENCE_S


def _type(editor: LineEditor, keys: bytes) -> tuple[bytes, Ended | None]:
    echo, ended = b"", None
    for key in keys:
        step = editor.feed(key)
        echo, ended = echo + step.echo, step.ended
    return echo, ended


@pytest.mark.parametrize(
    ("keys", "text", "echo", "ended"),
    [
        (b"show\r", "show", b"show\r\n", Ended.ENTER),
        (b"shp\x7fow\n", "show", b"shp\b \bow\r\n", Ended.ENTER),
        (b"abc\x15x\n", "x", b"abc\b \b\b \b\b \bx\r\n", Ended.ENTER),
        (b"\x7f\n", "", b"\r\n", Ended.ENTER),
        (b"one two\x17\n", "one", b"one two\b \b\b \b\b \b\b \b\r\n", Ended.ENTER),
        (b"x\x1b[Ay\n", "xy", b"xy\r\n", Ended.ENTER),
        (b"conf\x1a", "conf", b"conf^Z\r\n", Ended.CTRL_Z),
        (b"abc\x03", "abc", b"abc\r\n", Ended.CANCEL),
        (b"\x04", "", b"", Ended.LOGOUT),
    ],
)
def test_keys(keys: bytes, text: str, echo: bytes, ended: Ended) -> None:
    """What is typed is echoed literally; rubbing out, cursor keys and control keys do what they do on IOS."""
    editor = LineEditor()
    assert _type(editor, keys) == (echo, ended)
    assert editor.text == text


def test_passwords_are_not_echoed_and_long_lines_ring() -> None:
    """Only the line end of a password is echoed; beyond the limit nothing is taken."""
    hidden = LineEditor(echo=False)
    assert _type(hidden, b"word\n") == (b"\r\n", Ended.ENTER)
    assert hidden.text == "word"
    short = LineEditor(longest=3)
    assert _type(short, b"abcd\n")[0] == b"abc\a\r\n"
    assert short.text == "abc"


def test_a_question_mark_is_help_only_where_asked_for() -> None:
    """In a password or an answer it is a character like any other."""
    assert _type(LineEditor(takes_help=True), b"sh?")[1] is Ended.HELP
    assert _type(LineEditor(), b"sh?")[1] is None


TEXT = "version 16.11\ninterface Gi1\n shutdown\ninterface Gi2\n!\nip tcp timestamp\n"


@pytest.mark.parametrize(
    ("specification", "expected"),
    [
        ("include ^ip tcp", "ip tcp timestamp\n"),
        (" i Gi1|Gi2", "interface Gi1\ninterface Gi2\n"),
        ("exclude ^interface", "version 16.11\n shutdown\n!\nip tcp timestamp\n"),
        ("begin Gi2", "interface Gi2\n!\nip tcp timestamp\n"),
        ("begin nothing", ""),
        ("sec Gi1", "interface Gi1\n shutdown\n"),
        ("section ^interface", "interface Gi1\n shutdown\ninterface Gi2\n"),
        ("count ^interface", "Number of lines which match regexp = 2\n"),
    ],
)
def test_filters(specification: str, expected: str) -> None:
    """Each keeps the lines that IOS keeps."""
    assert filter_text(TEXT, specification) == expected


@pytest.mark.parametrize("specification", ["", "x y", "include", "include (", "i "])
def test_bad_filters(specification: str) -> None:
    """What is no filter, or no expression, is refused."""
    with pytest.raises(BadFilterError):
        filter_text(TEXT, specification)


def test_pipes_part_command_and_filter() -> None:
    """The first pipe behind a blank is the filter's."""
    assert split_pipe("sh run | i a|b") == ("sh run", " i a|b")
    assert split_pipe("show clock") == ("show clock", None)


def test_urls_of_copy() -> None:
    """Credentials, port and path are read; what is printed masks credentials only where the URL had them."""
    full = parse_url("ftp://u1:p2@198.18.0.1:2121//abs/x.bin")
    assert full == ServerUrl(host="198.18.0.1", port=2121, path="/abs/x.bin", user="u1", password="p2")
    assert full.shown == "ftp://*:*@198.18.0.1:2121//abs/x.bin"
    assert full.file_name == "x.bin"
    assert "p2" not in repr(full)
    assert parse_url("ftp://h/x").shown == "ftp://h/x"
    assert parse_url("ftp:") == ServerUrl(host="", port=21, path="")
    assert parse_url("nfs://h/x") is None
    assert (parse_url("tftp://h/x").port, parse_url("tftp://h/x").shown) == (69, "tftp://h/x")


def test_replies_come_whole() -> None:
    """Replies are cut at line ends, however the bytes come; a multi-line one is one reply (RFC 959 4.2)."""
    reader = ReplyReader()
    assert reader.feed(b"220-Wel") == []
    assert reader.feed(b"come\r\n 220 not yet\r\n220 go\r\n331 ") != []
    assert [reply.code for reply in reader.feed(b"word?\r\n230 in\r\n")] == [331, 230]
    with pytest.raises(FtpProtocolError):
        ReplyReader().feed(b"SSH-2.0-x\r\n")
    with pytest.raises(FtpProtocolError):
        ReplyReader().feed(b"2" * 9000)


def test_passive_addresses_and_sizes() -> None:
    """The six numbers of a 227, and the size that some servers name in a 150."""
    assert passive_address("Entering passive mode (198,18,0,1,7,208).") == ("198.18.0.1", 2000)
    for text in ("none", "(1,2,3,4,5)", "(1,2,3,4,256,1)"):
        with pytest.raises(FtpProtocolError):
            passive_address(text)
    assert announced_size("Opening BINARY mode data connection for x (42 bytes).") == 42
    assert announced_size("File status okay.") is None


@pytest.mark.parametrize(
    ("size", "seconds", "line"),
    [
        (115347980, 190.552, "115347980 bytes copied in 190.552 secs (605336 bytes/sec)"),
        (4, 0.348, "4 bytes copied in 0.348 secs (11 bytes/sec)"),
        (989519758, 198.784, "989519758 bytes copied in 198.784 secs (4977864 bytes/sec)"),
        (0, 0.028, "0 bytes copied in 0.028 secs (0 bytes/sec)"),
        (5, 0.0001, "5 bytes copied in 0.000 secs (0 bytes/sec)"),
    ],
)
def test_result_lines_of_captures_come_out(size: int, seconds: float, line: str) -> None:
    """The rate is that of the printed seconds, rounded to nearest."""
    assert result_line(PullResult(size_bytes=size, seconds=seconds)) == line


def test_times_as_ios_prints_them() -> None:
    """Stamps, clocks, rows of dir and uptimes."""
    moment = datetime(2021, 1, 6, 14, 23, 7, 5000, tzinfo=UTC)
    assert clock.stamp(moment) == "14:23:07 UTC Wed Jan 6 2021"
    assert clock.clock_line(moment) == "*14:23:07.005 UTC Wed Jan 6 2021"
    assert clock.file_stamp(moment) == " Jan 6 2021 14:23:07 +00:00"
    assert clock.syslog_stamp(moment) == "*Jan  6 14:23:07.005"
    assert clock.duration(59) == "0 minutes"
    assert clock.duration(60 * (10080 + 2 * 1440 + 60 + 1)) == "1 week, 2 days, 1 hour, 1 minute"


@pytest.mark.parametrize(
    ("lines", "window_bytes", "options"),
    [
        ((), 16384, (False, False, False)),
        (("ip tcp window-size 65535",), 65535, (False, False, False)),
        (("ip tcp window-size 65536",), 65536, (True, False, False)),
        (("ip tcp selective-ack", "ip tcp timestamp"), 16384, (False, True, True)),
    ],
)
def test_syn_options_follow_the_configuration(
    lines: tuple[str, ...], window_bytes: int, options: tuple[bool, bool, bool]
) -> None:
    """Scaling is offered above 65535 only; SACK and timestamps by their lines."""
    platform = load_platform("csr1000v-16.11")
    configuration = platform.configuration(serial="x", address="198.18.1.11")
    for line in lines:
        configuration.put(line, key=line)
    settings = tcp_settings(configuration, platform.tcp)
    seen = settings.syn_options
    assert settings.window_bytes == window_bytes
    assert (seen.window_scaling, seen.sack, seen.timestamps) == options
    assert settings.synwait_s == 30


def test_the_gate_never_mixes_options() -> None:
    """While one kind of SYN is opening, another waits; at rest the kernel's defaults are back."""
    import threading

    written: list[SynOptions] = []
    gate = OptionsGate(written.append)
    plain, full = SynOptions(window_scaling=False, sack=False, timestamps=False), SynOptions(timestamps=False)
    first_in, let_go, order = threading.Event(), threading.Event(), []

    def hold() -> None:
        with gate.opening(plain):
            first_in.set()
            let_go.wait(PATIENCE_S)
            order.append("plain")

    def other() -> None:
        with gate.opening(full):
            order.append("full")

    threads = [threading.Thread(target=hold)]
    threads[0].start()
    assert first_in.wait(PATIENCE_S)
    with gate.opening(plain):
        order.append("plain too")
    threads.append(threading.Thread(target=other))
    threads[1].start()
    let_go.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert order == ["plain too", "plain", "full"]
    assert written[0] == plain
    assert written[-1] == SynOptions()
    assert written.count(full) == 1


def test_a_long_line_scrolls_as_a_router_did() -> None:
    """The bytes are those of a router at 80 columns behind `pynet-rtr1#` (ktbyers/netmiko issue 160)."""
    editor = LineEditor(columns=line_columns(80, "pynet-rtr1#"))
    command = "show archive config differences flash:/candidate_config.txt system:/running-config"
    assert _type(editor, command.encode())[0] == (
        b"show archive config differences flash:/candidate_config.txt system"
        + b"\b" * 66 + b"$e config differences flash:/candidate_config.txt system:" + b" " * 9 + b"\b" * 9
        + b"/running-"
        + b"\b" * 65 + b"ifferences flash:/candidate_config.txt system:/running-c" + b" " * 9 + b"\b" * 9
        + b"onfig"
    )  # fmt: skip
    assert editor.text == command


def test_the_hidden_part_comes_back_with_the_cursor() -> None:
    """At the line's start its first characters are shown; what is typed there goes into the whole line."""
    editor = LineEditor(columns=20)
    _type(editor, b"abcdefghijklmnopqrstuvwxyz0123")
    assert editor.shown == "$lmnopqrstuvwxyz0123"
    _type(editor, b"\x01X")
    assert (editor.text, editor.shown) == ("Xabcdefghijklmnopqrstuvwxyz0123", "Xabcdefghijklmnopqrs")
    assert line_columns(0, "r1#") == 0
