"""`copy scp:` and `copy sftp:` against a plain SSH server: dialogues as in the transcripts, windows, lists, keys."""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world
from tests.component.lab.plain_ssh import LEGACY, SSH_WORD, PlainSsh, plain_ssh
from tests.patience import PATIENCE_S, until

pytestmark = [
    pytest.mark.lab,
    pytest.mark.soak,
    # The exchanges of old releases: the server of the tests has them, and cryptography warns that they will go.
    pytest.mark.filterwarnings("ignore:.*:cryptography.utils.CryptographyDeprecationWarning"),
]

SECOND_ADDRESS = "198.18.1.200"
DEVICES = (
    DeviceSpec(name="r1", config_lines=("interface Loopback0", f" ip address {SECOND_ADDRESS} 255.255.255.255")),
    DeviceSpec(name="n1", platform="c8000v-17.15", flash_free_bytes=2_000_000),
    DeviceSpec(name="old", platform="c2811-15.1"),
    DeviceSpec(name="sw", platform="c9300-17.6"),
)
NAME_IT = (r"filename \[.*\]\? ", "\n")
PASSWORD = (r"Password: ", f"{SSH_WORD}\n")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(profile="lan", devices=DEVICES)) as started:
        yield started


@pytest.fixture(scope="module")
def server(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainSsh]:
    with plain_ssh(world, tmp_path_factory.mktemp("ssh"), **LEGACY) as started:
        yield started


@pytest.fixture
def on(world: World, open_session: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Return what opens a session on a device by name."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(open_session(next(d for d in world.devices if d.name == name)))


def lines(shown: str) -> list[str]:
    """Return what was shown between the command and the prompt."""
    return [line for line in shown.replace("\r", "").split("\n")[1:-1] if line]


def test_every_question_comes_in_its_order(on: Any, server: PlainSsh, copy: Any, world: World) -> None:
    """The transcript of an ASR903: address, user, source, destination, overwriting, then the password, unseen."""
    server.add("testme.bin", 4)
    session = on("r1")
    command = f"copy {server.url('', login='tester@')} bootflash:"
    copy(session, f"copy {server.url('testme.bin')} bootflash:", NAME_IT)
    shown = copy(
        session, command, (r"remote host \[198\.18\.0\.1\]\? ", "\n"), (r"Source username \[tester\]\? ", "\n"),
        (r"Source filename \[testme\.bin\]\? ", "\n"), (r"Destination filename \[testme\.bin\]\? ", "\n"),
        (r"Do you want to over write\? \[confirm\]", "\n"), PASSWORD,
    )  # fmt: skip
    assert lines(shown)[-4:-1] == ["Password: ", " Sending file modes: C0644 4 testme.bin", "!"]
    assert re.fullmatch(r"4 bytes copied in \d+\.\d{3} secs \(\d+ bytes/sec\)", lines(shown)[-1])
    assert SSH_WORD not in shown
    assert {file.name: file.size_bytes for file in world.files("r1")}["testme.bin"] == 4


def test_a_whole_url_is_asked_for_its_destination_alone(on: Any, server: PlainSsh, copy: Any, world: World) -> None:
    """Login included: one question, a mark for each 256,000 bytes begun, the very bytes, the command on the wire."""
    content = server.add("a.bin", 700_000)
    server.commands.clear()
    shown = copy(on("n1"), f"copy {server.url('a.bin')} flash:", NAME_IT)
    assert lines(shown)[1:3] == [" Sending file modes: C0644 700000 a.bin", "!!!"]
    assert lines(shown)[3].startswith("700000 bytes copied in ")
    assert server.commands == ["scp -f a.bin"]
    assert next(file for file in world.files("n1") if file.name == "a.bin").path.read_bytes() == content
    assert not any(word in shown for word in ("Accessing", "Loading", "[OK"))


def test_sftp_reads_the_same_but_for_the_marks(on: Any, server: PlainSsh, copy: Any) -> None:
    """By pyATS the marks stand behind the name; to null: nothing is asked at all."""
    server.add("a.bin", 700_000)
    server.commands.clear()
    shown = copy(on("n1"), f"copy {server.url('a.bin', scheme='sftp')} null:")
    assert lines(shown)[0] == " Sending file modes: C0644 700000 a.bin!!!"
    assert server.commands == ["sftp"]


def test_a_configured_login_is_taken(on: Any, server: PlainSsh, copy: Any) -> None:
    """`ip scp username` and `ip scp password`: neither is asked for, and none is in the URL."""
    server.add("k.bin", 1000)
    session = on("n1")
    session.send_config_set(["ip scp username tester", f"ip scp password {SSH_WORD}"])
    shown = copy(session, f"copy {server.url('k.bin', login='')} null:")
    session.send_config_set(["no ip scp username", "no ip scp password"])
    assert "1000 bytes copied" in shown
    assert "username" not in shown.split("\n", 1)[1]


def test_a_wrong_password_is_asked_for_again(on: Any, server: PlainSsh, copy: Any, world: World) -> None:
    """Three times, each without an echo; then the copy ends with words that count as unknown."""
    server.add("k.bin", 1000)
    session, before = on("r1"), world.guesses("r1").get("ssh: wrong_password", 0)
    again = (r"Password: ", "wrong9\n")
    url = server.url("k.bin", login="tester@")
    assert "1000 bytes copied" in copy(session, f"copy {url} null:", again, PASSWORD)
    shown = copy(session, f"copy {url} null:", again, again, again)
    assert re.search(r"%Error opening scp://\*:\*@198\.18\.0\.1:\d+/k\.bin \(", shown)
    assert "wrong9" not in shown
    assert world.guesses("r1")["ssh: wrong_password"] == before + 1


def test_what_the_server_has_not_is_not_copied(on: Any, server: PlainSsh, copy: Any, world: World) -> None:
    """No file is left, and the reason stands behind the masked URL."""
    for scheme in ("scp", "sftp"):
        shown = copy(on("n1"), f"copy {server.url('nix.bin', scheme=scheme)} flash:", NAME_IT)
        assert re.search(rf"%Error opening {scheme}://\*:\*@\S+/nix\.bin \(No such file or directory\)", shown)
    assert "nix.bin" not in [file.name for file in world.files("n1")]


def test_a_file_without_room_is_refused_before_it_comes(on: Any, server: PlainSsh, copy: Any, world: World) -> None:
    """The words are those of the transcript, and the server hears of it."""
    server.add("large.bin", 3_000_000)
    shown = copy(on("n1"), f"copy {server.url('large.bin')} flash:", NAME_IT)
    assert re.search(r"%Error copying scp://\*:\*@\S+/large\.bin \(Not enough space on device\)", shown)
    assert "large.bin" not in [file.name for file in world.files("n1")]


def test_the_window_on_the_wire_is_that_of_the_line(on: Any, server: PlainSsh, copy: Any) -> None:
    """The channel opens with 8 KiB on 16.x and 128 KiB on 17.15, else as its line says; packets are no larger."""
    server.add("k.bin", 1000)
    for name, config, expected in (
        ("r1", "ip ssh window-size 65536", (65536, 32768)), ("r1", "no ip ssh window-size", (8192, 8192)),
        ("old", "no ip tcp window-size", (8192, 8192)), ("n1", "ip ssh bulk-mode 1048576", (1048576, 32768)),
        ("n1", "no ip ssh bulk-mode", (8192, 8192)), ("n1", "ip ssh bulk-mode 131072", (131072, 32768)),
    ):  # fmt: skip
        session = on(name)
        session.send_config_set([config])
        assert "1000 bytes copied" in copy(session, f"copy {server.url('k.bin')} null:")
        assert server.windows[-1] == expected


def test_the_client_chooses_the_cipher(on: Any, server: PlainSsh, copy: Any) -> None:
    """The first of its own list that the server has (RFC 4253 7.1); a configured list goes before the release's."""
    server.add("k.bin", 1000)
    session = on("n1")
    for config, expected in (
        ("no ip ssh client algorithm encryption", "aes128-gcm@openssh.com"),
        ("ip ssh client algorithm encryption aes256-gcm aes128-ctr", "aes128-ctr"),
    ):
        session.send_config_set([config])
        assert "1000 bytes copied" in copy(session, f"copy {server.url('k.bin')} null:")
        assert server.ciphers[-1] == expected
    session.send_config_set(["no ip ssh client algorithm encryption"])
    assert "1000 bytes copied" in copy(on("old"), f"copy {server.url('k.bin')} null:")
    assert server.ciphers[-1] == "aes128-cbc"


def test_without_a_common_algorithm_the_log_names_both_lists(
    on: Any, copy: Any, world: World, tmp_path: Path
) -> None:  # fmt: skip
    """%SSH-3-NO_MATCH is known from `ssh`; what `copy` says itself is not, and is counted."""
    with plain_ssh(world, tmp_path, kex_algs=["curve25519-sha256"]) as modern:
        modern.add("k.bin", 1000)
        session = on("old")
        shown = copy(session, f"copy {modern.url('k.bin')} null:")
        logged = session.send_command("show logging | include NO_MATCH")
    assert re.search(r"%Error opening scp://\*:\*@\S+/k\.bin \(", shown)
    kex = "diffie-hellman-group-exchange-sha1,diffie-hellman-group14-sha1"
    assert f"%SSH-3-NO_MATCH: No matching kex algorithm found: client {kex} server curve25519-sha256" in logged
    assert world.guesses("old")["ssh: no_common_algorithm"] >= 1


def test_another_key_at_the_same_address_is_noticed(on: Any, copy: Any, world: World, tmp_path: Path) -> None:
    """17.x keeps to the first key it saw (assumed); IOS 16 takes any, unless `stricthostkeycheck` is on."""
    keys = [asyncssh.generate_private_key("ssh-rsa", key_size=2048) for _ in range(2)]
    port = 0
    outcomes = []
    for key in keys:
        with plain_ssh(world, tmp_path, server_host_keys=[key], port=port, **LEGACY) as at:
            at.add("k.bin", 1000)
            port = at.port
            outcomes.append([copy(on(name), f"copy {at.url('k.bin')} null:") for name in ("n1", "r1")])
            if key is keys[1]:
                session = on("r1")
                session.send_config_set(["ip ssh stricthostkeycheck"])
                outcomes.append([copy(session, f"copy {at.url('k.bin')} null:")])
                session.send_config_set(["no ip ssh stricthostkeycheck"])
    assert [["1000 bytes copied" in shown for shown in each] for each in outcomes] == [
        [True, True], [False, True], [False],
    ]  # fmt: skip
    assert world.guesses("n1")["ssh: host_key_changed"] == 1


def test_the_copy_leaves_as_its_lines_say(on: Any, server: PlainSsh, copy: Any, wire: Any) -> None:
    """`ip ssh source-interface` is its address; a VRF without a way lets nothing out, and an unknown one is refused."""
    server.add("k.bin", 1000)
    session, line = on("r1"), f"copy {server.url('k.bin')} null:"
    session.send_config_set(["ip ssh source-interface Loopback0"])
    wire.syns()
    assert "1000 bytes copied" in copy(session, line)
    assert {syn.source for syn in wire.syns()} == {SECOND_ADDRESS}
    session.send_config_set(["no ip ssh source-interface"])
    assert "1000 bytes copied" in copy(session, line)
    assert {syn.source for syn in wire.syns()} == {"198.18.1.11"}
    switch = on("sw")
    shown = copy(switch, f"copy {server.url('k.bin')} null: vrf Mgmt-vrf")
    assert re.search(r"%Error opening scp://\*:\*@\S+ \(Timed out\)", shown)
    assert "% VRF Nowhere does not exist" in switch.send_command(f"{line} vrf Nowhere")


def test_bulk_mode_offers_sack(on: Any, server: PlainSsh, copy: Any, wire: Any) -> None:
    """Cisco's guide says that it turns selective acknowledgements on; without it 16.x offers none."""
    server.add("k.bin", 1000)
    wire.syns()
    assert "1000 bytes copied" in copy(on("r1"), f"copy {server.url('k.bin')} null:")
    assert [4 in syn.options for syn in wire.syns()] == [False]
    assert "1000 bytes copied" in copy(on("sw"), f"copy {server.url('k.bin')} null:")
    session = on("sw")
    session.send_config_set(["ip ssh bulk-mode 131072"])
    wire.syns()
    assert "1000 bytes copied" in copy(session, f"copy {server.url('k.bin')} null:")
    session.send_config_set(["no ip ssh bulk-mode"])
    assert [4 in syn.options for syn in wire.syns()] == [True]


def test_the_escape_character_ends_a_copy(on: Any, server: PlainSsh, copy: Any, world: World) -> None:
    """Ctrl-Shift-6: no partial file stays, and the device is back at its prompt; the words count as unknown."""
    server.add("long.bin", 1_000_000)
    session = on("n1")
    world.fault("n1", hold_copy_at_bytes=400_000)
    try:
        session.write_channel(f"copy {server.url('long.bin')} flash:\n")
        session.read_until_pattern(r"\]\? ")
        session.write_channel("\n")
        session.read_until_pattern(r"!")
        session.write_channel("\x1e")
        shown = session.read_until_pattern(r"\nn1#", read_timeout=PATIENCE_S)
    finally:
        world.fault("n1", hold_copy_at_bytes=None)
    assert re.search(r"\n%Error reading scp://\*:\*@\S+/long\.bin \(Aborted\)", shown)
    assert "long.bin" not in [file.name for file in world.files("n1")]


def test_nobody_answers(on: Any, copy: Any, world: World) -> None:
    """A port where nothing listens: the words are those of FTP's client."""
    shown = copy(on("r1"), f"copy scp://tester:{SSH_WORD}@{world.server_address}:1/x.bin null:")
    assert re.search(r"%Error opening scp://\*:\*@198\.18\.0\.1:1/x\.bin \(Connection refused by remote host\)", shown)


PYATS_ANSWERS = (
    (r"Address or name of remote host.*$", ""), (r"Source username.*$", "tester"), (r"Source filename.*$", ""),
    (r"Destination filename.*$", "/by-pyats.bin"), (r"(?<!Abort Copy\? )\[confirm\]\s*$", ""),
    (r"Are you sure you want to continue connecting.*$", "yes"), (r".*[P|p]assword:\s*$", SSH_WORD),
)  # fmt: skip
PYATS_FAILURES = (
    r"Permission denied[^,]",
    "not found",
    "No space",
    "No such file or directory",
    "Error(?! opening tftp)",
)
"""What genielibs waits for in a copy and what it takes for a failure (genielibs 061c0d19, filetransferutils)."""


def answered_as(session: Any, command: str, answers: tuple[tuple[str, str], ...], prompt: str) -> str:
    """Type a command and answer whatever pattern stands at the end of the screen, as an expect loop does."""
    session.write_channel(command + "\n")
    shown = fresh = ""

    def is_at_prompt() -> bool:
        nonlocal shown, fresh
        more = session.read_channel().replace("\r", "")
        shown, fresh = shown + more, fresh + more
        found = [text for pattern, text in answers if re.search(pattern, fresh.rpartition("\n")[2])]
        if found and fresh.rpartition("\n")[2] != f"{prompt}#":
            fresh = ""
            session.write_channel(found[0] + "\n")
        return fresh.endswith(f"\n{prompt}#")

    until(is_at_prompt, lambda: f"the prompt after {shown!r}")
    return shown


@pytest.mark.parametrize(("url", "device"), [("", "n1"), ("by-pyats.bin", "n1"), ("", "r1"), ("by-pyats.bin", "r1")])
def test_the_answers_of_pyats_fit(on: Any, server: PlainSsh, world: World, url: str, device: str) -> None:
    """Each of its patterns meets its question, whole URL or not, and the file is there under the name it gave."""
    content = server.add("by-pyats.bin", 300_000)
    session = on(device)
    answered_as(session, f"copy {server.url('by-pyats.bin')} null:", PYATS_ANSWERS, device)  # the name to be offered
    shown = answered_as(session, f"copy {server.url(url, login='tester@')} flash:", PYATS_ANSWERS, device)
    assert "300000 bytes copied" in shown
    assert not any(re.search(pattern, shown) for pattern in PYATS_FAILURES)
    kept = [file.path for file in world.files(device) if file.name == "by-pyats.bin"]
    assert kept[0].read_bytes() == content


def test_what_goes_wrong_is_a_failure_to_pyats(on: Any, server: PlainSsh) -> None:
    """A file that is not there and a port where nobody listens match its list of failures."""
    session = on("r1")
    for url in (server.url("nix.bin"), server.url("x.bin").replace(f":{server.port}/", ":1/")):
        shown = answered_as(session, f"copy {url} null:", PYATS_ANSWERS, "r1")
        assert any(re.search(pattern, shown) for pattern in PYATS_FAILURES)


def test_a_device_that_asks_about_keys_is_answered_yes(on: Any, copy: Any, world: World, tmp_path: Path) -> None:
    """The question comes for a server that is not known yet, once; no is the end of the copy."""
    world.fault("sw", ssh_asks_host_key=True)
    try:
        with plain_ssh(world, tmp_path) as stranger:
            stranger.add("k.bin", 1000)
            session, command = on("sw"), f"copy {stranger.url('k.bin')} null:"
            asked = r"fingerprint is SHA256:\S+\s+Are you sure you want to continue connecting.*\? "
            assert "%Error opening scp" in copy(session, command, (asked, "no\n"))
            assert "1000 bytes copied" in copy(session, command, (asked, "yes\n"))
            assert "1000 bytes copied" in copy(session, command)
    finally:
        world.fault("sw", ssh_asks_host_key=False)


def test_the_line_that_genielibs_types_names_the_source(on: Any, server: PlainSsh, copy: Any, wire: Any) -> None:
    """`ip scp source-interface` goes before the one of SSH; only copies by SCP follow it."""
    server.add("k.bin", 1000)
    session = on("n1")
    session.send_config_set(
        ["interface Loopback0", f"ip address {SECOND_ADDRESS} 255.255.255.255", "ip scp source-interface Loopback0"]
    )  # fmt: skip
    for scheme, expected in (("scp", SECOND_ADDRESS), ("sftp", "198.18.1.12")):
        wire.syns()
        assert "1000 bytes copied" in copy(session, f"copy {server.url('k.bin', scheme=scheme)} null:")
        assert {syn.source for syn in wire.syns()} == {expected}
    session.send_config_set(["no ip scp source-interface", "no interface Loopback0"])
