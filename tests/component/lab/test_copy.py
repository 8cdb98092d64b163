"""`copy ftp:` against a stock FTP server: dialogue, errors, files, faults."""

import hashlib
import re
from typing import Any

import pytest

from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.lab, pytest.mark.soak]

RESULT = re.compile(r"(\d+) bytes copied in ([\d.]+) secs \((\d+) bytes/sec\)")


def _content(world: Any, name: str, file: str) -> bytes | None:
    found = [each for each in world.files(name) if each.name == file]
    return found[0].path.read_bytes() if found else None


def test_a_copy_brings_the_file_and_prints_what_ios_prints(world: Any, ftp: Any, connection: Any, copy: Any) -> None:
    """Question, masked URL, one mark per 256,000 bytes, OK line, and a rate that follows from the seconds."""
    content = ftp.add("image.bin", 2_814_938)
    shown = copy(connection, f"copy {ftp.url('image.bin')} flash:", (r"\[image\.bin\]\? ", "\n"))
    masked = f"ftp://*:*@{ftp.address}:{ftp.port}/image.bin"
    expected = (
        f"Destination filename [image.bin]? \nAccessing {masked}...\n"
        f"Loading image.bin {'!' * 11}\n[OK - 2814938/4096 bytes]\n\n2814938 bytes copied in "
    )
    assert expected in shown.replace("\r", "")
    size, seconds, rate = RESULT.search(shown).groups()
    assert int(size) == 2_814_938
    assert int(rate) == int(int(size) / float(seconds) + 0.5)
    assert _content(world, "r1", "image.bin") == content
    verified = connection.send_command("verify /md5 flash:image.bin", read_timeout=PATIENCE_S)
    assert verified.startswith("." * 43 + "Done!")
    assert f"verify /md5 (bootflash:image.bin) = {hashlib.md5(content).hexdigest()}" in verified
    long = connection.send_command("verify /sha512 flash:/image.bin", read_timeout=PATIENCE_S)
    assert f"verify /sha512 (bootflash:/image.bin) = {hashlib.sha512(content).hexdigest()}" in long
    assert "2814938" in connection.send_command("dir flash:image.bin")


def test_overwriting_is_asked_with_a_single_key(world: Any, ftp: Any, connection: Any, copy: Any) -> None:
    """`n` leaves the file alone and says nothing; Enter overwrites it."""
    first = ftp.add("twice.bin", 10_000)
    command = f"copy {ftp.url('twice.bin')} bootflash:/twice.bin"
    copy(connection, command, (r"\]\? ", "\n"))
    second = ftp.add("twice.bin", 9_000)[::-1]
    (ftp.root / "twice.bin").write_bytes(second)
    kept = copy(connection, command, (r"\]\? ", "\n"), (r"\[confirm\]", "n"))
    assert "%Warning:There is a file already existing with this name \nDo you want to over write? [confirm]n\n" in (
        kept.replace("\r", "")
    )
    assert "Accessing" not in kept
    assert _content(world, "r1", "twice.bin") == first
    copy(connection, command, (r"\]\? ", "\n"), (r"\[confirm\]", "\n"))
    assert _content(world, "r1", "twice.bin") == second


def test_null_takes_everything_and_keeps_nothing(world: Any, ftp: Any, connection: Any, copy: Any) -> None:
    """`copy ... null:` asks no name and leaves no file."""
    ftp.add("probe.bin", 300_000)
    before = world.files("r1")
    shown = copy(connection, f"copy {ftp.url('probe.bin')} null:")
    assert RESULT.search(shown)[1] == "300000"
    assert world.files("r1") == before


def test_an_empty_file_is_copied(world: Any, ftp: Any, connection: Any, copy: Any) -> None:
    """No bytes are no error: no marks, size 0."""
    ftp.add("empty.bin", 0)
    shown = copy(connection, f"copy {ftp.url('empty.bin')} flash:", (r"\]\? ", "\n"))
    assert RESULT.search(shown)[1] == "0"
    assert _content(world, "r1", "empty.bin") == b""


@pytest.mark.parametrize(
    ("path", "login", "reason"),
    [
        ("absent.bin", None, "No such file or directory"),
        ("probe.bin", "tester:wrong@", "Incorrect Login/Password"),
    ],
)
def test_refusals_of_the_server(
    world: Any, ftp: Any, connection: Any, copy: Any, path: str, login: str | None, reason: str
) -> None:
    """The device names the masked URL and the reason, and leaves no file."""
    url = ftp.url(path) if login is None else ftp.url(path, login=login)
    shown = copy(connection, f"copy {url} flash:never.bin", (r"\]\? ", "\n"))
    assert f"%Error opening ftp://*:*@{ftp.address}:{ftp.port}/{path} ({reason})" in shown
    assert _content(world, "r1", "never.bin") is None


def test_nobody_there(connection: Any, copy: Any, ftp: Any) -> None:
    """A closed port is refused; an address without a host times out after `ip tcp synwait-time`."""
    refused = copy(connection, f"copy ftp://a:b@{ftp.address}:9/x.bin null:")
    assert f"%Error opening ftp://*:*@{ftp.address}:9/x.bin (Connection refused by remote host)" in refused
    connection.send_config_set(["ip tcp synwait-time 5"])
    silent = copy(connection, "copy ftp://198.18.0.99/x.bin null:")
    connection.send_config_set(["no ip tcp synwait-time"])
    assert "%Error opening ftp://198.18.0.99/x.bin (Timed out)" in silent


def test_a_full_flash_stops_the_copy(world: Any, ftp: Any, open_session: Any, copy: Any) -> None:
    """A file larger than the room left fails and leaves the room as it was."""
    ftp.add("large.bin", 3_000_000)
    with open_session(world.devices[1]) as connection:
        free = re.search(r"\((\d+) bytes free", connection.send_command("dir"))[1]
        assert 990_000 < int(free) <= 1_000_000
        shown = copy(connection, f"copy {ftp.url('large.bin')} flash:", (r"\]\? ", "\n"))
        assert f"%Error copying ftp://*:*@{ftp.address}:{ftp.port}/large.bin (Not enough space on device)" in shown
        assert f"({free} bytes free)" in connection.send_command("dir")


def test_credentials_of_the_configuration_are_used(ftp: Any, connection: Any, copy: Any) -> None:
    """Without a login in the URL the device takes `ip ftp username` and `ip ftp password`, and masks nothing."""
    ftp.add("probe.bin", 300_000)
    connection.send_config_set(["ip ftp username tester", "ip ftp password lab9word"])
    assert "lab9word" not in connection.send_command("show running-config | include ip ftp")
    shown = copy(connection, f"copy {ftp.url('probe.bin', login='')} null:")
    connection.send_config_set(["no ip ftp username", "no ip ftp password"])
    assert f"Accessing ftp://{ftp.address}:{ftp.port}/probe.bin..." in shown
    assert RESULT.search(shown)


def test_active_mode_fetches_too(ftp: Any, connection: Any, copy: Any) -> None:
    """`no ip ftp passive` is shown as a line and makes the server connect to the device."""
    ftp.add("probe.bin", 300_000)
    connection.send_config_set(["no ip ftp passive"])
    assert connection.send_command("show run | i ftp").strip() == "no ip ftp passive"
    shown = copy(connection, f"copy {ftp.url('probe.bin')} null:")
    connection.send_config_set(["ip ftp passive"])
    assert RESULT.search(shown)
    assert connection.send_command("show run | i ftp").strip() == ""


def test_bare_urls_are_asked_for(ftp: Any, connection: Any, copy: Any) -> None:
    """`copy ftp: null:` asks for host and file; no host is an error of its own."""
    shown = copy(connection, "copy ftp: null:", (r"remote host \[\]\? ", "\n"))
    assert "?Host name or address not specified" in shown
    assert "%Error parsing filename (Bad address)" in shown


def test_the_escape_key_aborts(world: Any, ftp: Any, connection: Any, copy: Any) -> None:
    """Ctrl-Shift-6 ends a copy at once; the session goes on and no partial file stays."""
    ftp.add("slow.bin", 4_000_000)
    world.fault("r1", hold_copy_at_bytes=400_000)
    try:
        shown = copy(connection, f"copy {ftp.url('slow.bin')} flash:", (r"\]\? ", "\n"), (r"!", "\x1e"))
    finally:
        world.fault("r1", hold_copy_at_bytes=None)
    assert not RESULT.search(shown)
    assert "%Error reading" in shown
    assert _content(world, "r1", "slow.bin") is None


def test_a_second_session_sees_the_copy_and_a_lost_one_ends_it(
    world: Any, ftp: Any, device: Any, open_session: Any
) -> None:
    """While one vty copies, another lists its connections; when the first dies the copy ends."""
    ftp.add("slow.bin", 4_000_000)
    world.fault("r1", hold_copy_at_bytes=400_000)
    try:
        with open_session(device) as first, open_session(device) as second:
            first.write_channel(f"copy {ftp.url('slow.bin')} flash:\n")
            first.read_until_pattern(r"\]\? ")
            first.write_channel("\n")
            first.read_until_pattern(r"!")
            rows = second.send_command("show tcp brief")
            assert f"{ftp.address}.{ftp.port} " in rows
            assert rows.count("ESTAB") == 4
            first.remote_conn.transport.close()
            until(lambda: f"{ftp.address}.{ftp.port} " not in second.send_command("show tcp brief"), "its end")
    finally:
        world.fault("r1", hold_copy_at_bytes=None)
    assert _content(world, "r1", "slow.bin") is None


def test_faults_in_a_copy(world: Any, ftp: Any, connection: Any, copy: Any) -> None:
    """Foreign lines inside the marks, a flipped byte, a full flash: each comes and goes with its switch."""
    content = ftp.add("fault.bin", 1_500_000)
    command = f"copy {ftp.url('fault.bin')} flash:fault.bin"
    world.fault("r1", syslog_in_copy=True, flip_byte=True)
    shown = copy(connection, command, (r"\]\? ", "\n"))
    assert "%Error opening tftp://255.255.255.255/network-confg (Timed out)!" in shown
    assert RESULT.search(shown)
    spoiled = _content(world, "r1", "fault.bin")
    assert sum(a != b for a, b in zip(content, spoiled, strict=True)) == 1
    connection.send_command_timing("delete /force flash:fault.bin")
    world.fault("r1", syslog_in_copy=False, flip_byte=False, flash_full=True)
    assert "(Not enough space on device)" in copy(connection, command, (r"\]\? ", "\n"))
    world.fault("r1", flash_full=False)
    copy(connection, command, (r"\]\? ", "\n"))
    assert _content(world, "r1", "fault.bin") == content


def test_a_device_that_lies_claims_the_whole_image(
    world: Any, ftp: Any, connection: Any, copy: Any, tmp_path: Any
) -> None:
    """It reports, lists and hashes all of an image that it never fetched; its flash holds zeros."""
    content = ftp.add("lie.bin", 1_500_000)
    image = tmp_path / "lie.bin"
    image.write_bytes(content)
    world.fault("r1", claims_image=str(image))
    try:
        assert "1500000 bytes copied" in copy(connection, f"copy {ftp.url('lie.bin')} flash:lie.bin", (r"\]\? ", "\n"))
        assert "1500000" in connection.send_command("dir flash:lie.bin")
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        assert digest in connection.send_command("verify /md5 flash:lie.bin", read_timeout=60)
        assert _content(world, "r1", "lie.bin") == bytes(1_500_000)
    finally:
        world.fault("r1", claims_image=None)


def test_a_refused_configuration_line_changes_nothing(world: Any, connection: Any) -> None:
    """Authorization refuses lines that a pattern finds, and lets others pass."""
    world.fault("r1", refuse_config_pattern="window-size")
    try:
        shown = connection.send_config_set(["ip tcp window-size 65536", "ip tcp timestamp"])
    finally:
        world.fault("r1", refuse_config_pattern=None)
    assert "Command authorization failed." in shown
    assert "window-size" not in world.running_config("r1")
    assert "ip tcp timestamp" in world.running_config("r1")
    connection.send_config_set(["no ip tcp timestamp"])


def test_ssh_can_be_dropped_in_the_middle(world: Any, ftp: Any, device: Any, open_session: Any) -> None:
    """The connection dies after so many bytes; the device is there for the next session."""
    ftp.add("drop.bin", 2_000_000)
    world.fault("r1", drop_ssh_after_bytes=600_000)
    try:
        with open_session(device) as first:
            first.write_channel(f"copy {ftp.url('drop.bin')} null:\n")
            until(lambda: not first.is_alive(), "the end of the session")
    finally:
        world.fault("r1", drop_ssh_after_bytes=None)
    with open_session(device) as again:
        assert again.find_prompt() == "r1#"


def test_delete_asks_twice_unless_forced(world: Any, ftp: Any, connection: Any, copy: Any) -> None:
    """The file is gone after both answers, and stays when the second is no."""
    ftp.add("gone.bin", 1000)
    copy(connection, f"copy {ftp.url('gone.bin')} flash:", (r"\]\? ", "\n"))
    copy(connection, "delete flash:gone.bin", (r"Delete filename \[gone\.bin\]\? ", "\n"), (r"\[confirm\]", "n"))
    assert _content(world, "r1", "gone.bin") is not None
    copy(connection, "delete flash:gone.bin", (r"\]\? ", "\n"), (r"Delete flash:/gone\.bin\? \[confirm\]", "\n"))
    assert _content(world, "r1", "gone.bin") is None
    missing = connection.send_command("delete /force flash:gone.bin")
    assert missing.strip() == "%Error deleting bootflash:/gone.bin (No such file or directory)"
    assert "%Error computing MD5 hash bootflash:/gone.bin (No such file or directory)" in connection.send_command(
        "verify /md5 flash:/gone.bin"
    )
