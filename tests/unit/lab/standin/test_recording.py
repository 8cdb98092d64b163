"""A device played from a recording answers what was recorded; state is the engine's, and the rest gets a caret."""

import shutil
from pathlib import Path

import pytest

from flashferry.lab.errors import LabError
from flashferry.lab.standin.device import Device, DeviceSettings
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.standin.recording import load_recording, nearest_platform, recorded_platform
from flashferry.lab.world_spec import load_world
from tests.unit.lab.standin.console import Console

CAPTURES = Path(__file__).parents[3] / "captures"
CARET = "% Invalid input detected at '^' marker."


def played(path: Path, folder: Path, **settings: object) -> Console:
    """Return a console on a device played from a recording."""
    recording = load_recording(path)
    platform = recorded_platform(load_platform(nearest_platform(recording, "csr1000v-16.11")), recording)
    own = {"name": "r1", "address": "198.18.1.11", "username": "ferry", "password": "w", "enable_secret": "e"}
    device = Device(platform, DeviceSettings(**(own | settings)), folder / "flash")
    device.vtys[0] = ("ferry", "198.18.0.1")
    return Console(device)


@pytest.fixture
def capture_set(tmp_path: Path) -> Path:
    """The captures of an IOSv, as `flashferry pilot` lays them out."""
    folder = tmp_path / "captures"
    for kind, source in (
        ("show_version", "lab/show_version_iosv.txt"),
        ("config", "config/as1border1.cfg"),
        ("dir", "dir/iosv.txt"),
        ("show_redundancy", "lab/show_redundancy_iosv.txt"),
        ("show_platform_software_cpu_policer", "lab/show_hosts.txt"),
        ("show_ip_cef", "lab/show_ip_cef.txt"),
    ):
        (folder / kind).mkdir(parents=True)
        shutil.copy(CAPTURES / source, folder / kind / "iosv-15.8-3-m2.txt")
    (folder / "sessions").mkdir()
    (folder / "sessions/iosv-15.8-3-m2.session").write_text(
        "as1border1#configure terminal\nEnter configuration commands, one per line.  End with CNTL/Z.\n"
        "as1border1(config)#ip tcp selective-ack\n                            ^\n"
        f"{CARET}\n\nas1border1(config)#end\nas1border1#\n"
    )
    return folder


def test_recorded_answers_come_word_for_word(capture_set: Path, tmp_path: Path) -> None:
    """`show version` is the capture to the byte, also where it is cut short by a filter or typed short."""
    text = (CAPTURES / "lab/show_version_iosv.txt").read_text()
    console = played(capture_set, tmp_path)
    screen = console.type("terminal length 0", "sh ver")
    assert text.strip() in screen
    assert "Configuration register is 0x0" in console.show("show version | include register")
    assert console.show("show version | include register").count("\n") == 1
    assert console.device.platform.name == "iosv-15.8"


def test_what_was_not_recorded_gets_a_caret(capture_set: Path, tmp_path: Path) -> None:
    """A command that the platform's stand-in would answer gets a caret under its first word that was not recorded."""
    console = played(capture_set, tmp_path)
    for command in ("show inventory", "show ip route", "show environment", "frobnicate"):
        assert CARET in console.type(command), command
    lines = console.type("show boot").splitlines()
    echo = next(line for line in lines if line.endswith("show boot"))
    assert lines[lines.index(echo) + 1].index("^") == echo.index("boot")


def test_the_recorded_configuration_is_the_start_and_changes(capture_set: Path, tmp_path: Path) -> None:
    """It is shown as it was, but for the way to the world; a line set stands in its place and leaves no trace."""
    console = played(capture_set, tmp_path)
    before = console.show("show running-config").partition("!\nversion")[2]
    recorded = (CAPTURES / "config/as1border1.cfg").read_text().partition("!\nversion")[2]
    differing = set(before.splitlines()) ^ {line.rstrip() for line in recorded.splitlines()}
    assert {line for line in differing if line.strip(" !")} == {
        " ip address 198.18.1.11 255.255.255.0", " ip address 1.0.1.1 255.255.255.0",
        "ip route 0.0.0.0 0.0.0.0 GigabitEthernet0/0", console.device.running.find("enable secret").text,
        console.device.running.find("username ferry").text,
    }  # fmt: skip
    console.type("configure terminal", "ip tcp window-size 65536")
    set_text = console.show("show running-config")
    assert "ip tcp synwait-time 5\nip tcp window-size 65536\n" in set_text
    console.type("configure terminal", "no ip tcp window-size")
    assert console.show("show running-config").partition("!\nversion")[2] == before
    console.device.save("ferry")
    assert not console.device.is_unsaved


def test_a_refused_line_is_refused_as_it_was(capture_set: Path, tmp_path: Path) -> None:
    """The configuration line that the device refused is refused here, and nothing is stored."""
    console = played(capture_set, tmp_path)
    screen = console.type("configure terminal", "ip tcp selective-ack")
    assert f"                            ^\n{CARET}" in screen
    assert console.device.running.find("ip tcp selective-ack") is None


def test_files_are_those_of_dir(capture_set: Path, tmp_path: Path) -> None:
    """The flash has the recorded name, files and room."""
    console = played(capture_set, tmp_path)
    recorded = (CAPTURES / "dir/iosv.txt").read_text()
    shown = console.show("dir flash0:")
    assert "vios-adventerprisek9-m\n" in shown
    assert shown.strip().splitlines()[-1] == recorded.strip().splitlines()[-1]
    console.type("delete /force flash0:e1000_bia.txt")
    assert "e1000_bia" not in console.show("dir")


def test_a_mock_of_pyats_is_played(tmp_path: Path) -> None:
    """States at a prompt give answers, those at a question do not; user mode knows its own alone."""
    mock = tmp_path / "mock.yaml"
    mock.write_text(
        "login:\n  prompt: 'Username: '\n  commands:\n    'x': {new_state: exec}\n"
        "exec:\n  prompt: '%N>'\n  commands:\n"
        "    'show users': ''\n    'show call active voice': 'none here'\n"
        "    'show platform': |\n      % Invalid input detected at '^' marker.\n"
        "enable:\n  prompt: '%N#'\n  commands:\n"
        "    'show platform':\n      response: |\n        Chassis type: X1\n"
        "    'show redundancy | include x': 'only filtered'\n"
        "    'show boot': {response: [first boot, second boot]}\n"
    )
    console = played(mock, tmp_path, privilege=1)
    assert "none here" in console.type("show call active voice")
    screen = console.type("show platform", "enable", "e", "show platform", "show boot", "show redundancy | include x")
    assert (
        screen.index(CARET) < screen.index("Chassis type: X1") < screen.index("first boot") < screen.index("only fil")
    )
    assert CARET in console.type("enable", "e", "show redundancy")


def test_a_transcript_is_played(tmp_path: Path) -> None:
    """Answers are those between echo and prompt; a command that asked a question is the engine's."""
    transcript = tmp_path / "20261123T033222Z-edge-1.txt"
    stamp = "2026-11-23T03:22:34.341Z"
    transcript.write_text(
        "\n".join(
            f"{stamp} {line}"
            for line in (
                "- flashferry 0.1.0: < came from the device", "< \\r\\n", "< edge7#", "> show version\\n",
                "< show version\\r\\n", "< Cisco IOS XE Software, Version 16.09.03\\r\\n", "< a \\\\ and \\x07\\r\\n",
                "< edge7#", "> copy ftp://x flash:y\\n", "< copy ftp://x flash:y\\r\\n", "< Destination filename [y]? ",
                "> \\n", "< \\r\\n", "< 20 bytes copied in 1 secs\\r\\n", "< edge7#", "> show clock det\\n",
                "< show clock det\\r\\n", "< Command authorization failed.\\r\\n", "< \\r\\n", "< edge7#",
            )
        )
    )  # fmt: skip
    console = played(transcript, tmp_path)
    assert console.device.hostname == "edge7"
    screen = console.type("show version", "show clock det", "show clock")
    assert "Version 16.09.03\na \\ and \x07\n" in screen
    assert screen.count("Command authorization failed.") == 1
    assert not any("copy" in command for command in load_recording(transcript).answers)


def test_a_world_file_names_the_recording(capture_set: Path, tmp_path: Path) -> None:
    """The path stands beside the file, and the platform follows from what was recorded."""
    world = tmp_path / "world.toml"
    world.write_text(
        '[[sites]]\nname = "a"\nlink = "lan"\n[[sites.devices]]\nname = "r1"\nrecording = "captures"\n', "utf-8"
    )
    (device,) = load_world(str(world)).sites[0].devices
    assert device.recording == str(capture_set)
    assert device.platform == "iosv-15.8"


@pytest.mark.parametrize("make", ["missing", "empty", "two devices"])
def test_what_is_no_recording_is_refused(tmp_path: Path, make: str) -> None:
    """The sentence names the path and what is expected."""
    path = tmp_path / "recording"
    if make != "missing":
        (path / "show_version").mkdir(parents=True)
    for name in ("a", "b") if make == "two devices" else ():
        (path / "show_version" / f"{name}.txt").write_text("Cisco IOS Software")
    with pytest.raises(LabError, match="expected") as caught:
        load_recording(path)
    assert str(path) in str(caught.value)


def test_the_engine_installs_on_what_was_recorded(tmp_path: Path) -> None:
    """Without `show install` in the recording the table names the recorded release; in bundle mode there is none."""
    folder = tmp_path / "captures"
    (folder / "show_version").mkdir(parents=True)
    text = (CAPTURES / "show_version/c9500_install_mode.txt").read_text()
    (folder / "show_version/core.txt").write_text(text)
    console = played(folder, tmp_path)
    assert "IMG   C    16.09.03.0.1\n" in console.show("show install summary")
    assert console.show("show version").strip() == text.strip()
    (folder / "show_version/core.txt").write_text(text.replace("packages.conf", "cat9k_iosxe.16.09.03.SPA.bin"))
    assert CARET in played(folder, folder).show("show install summary")


def test_after_a_restart_the_recorded_texts_name_what_runs(tmp_path: Path) -> None:
    """Release in both spellings, image, reason and uptime of the restart; what it leaves alone stays as recorded."""
    folder = tmp_path / "captures"
    (folder / "show_version").mkdir(parents=True)
    shutil.copy(CAPTURES / "show_version/csr1000v.txt", folder / "show_version/r.txt")
    (folder / "show_boot").mkdir()
    shutil.copy(CAPTURES / "show_boot/asr1k.txt", folder / "show_boot/r.txt")
    console = played(folder, tmp_path)
    device = console.device
    image = f"{device.flash.prefix}csr1000v-universalk9.17.03.04a.SPA.bin"
    device.flash.write(image.partition(":")[2], b"new")
    console.type("configure terminal", f"boot system {image}", "end", "write memory")
    recorded = console.show("show version").splitlines()
    device.restart()
    assert device.boot()
    shown = console.show("show version").splitlines()
    new = [line for line in shown if line not in recorded]
    assert any("Version 17.03.04a" in line for line in new)
    assert any("Version 17.3.4a" in line for line in new)
    assert f'System image file is "{image}"' in new
    assert any(line.endswith("uptime is 0 minutes") for line in new)
    assert "Last reload reason: Reload Command" in new
    assert len(new) <= 8
    assert len(shown) == len(recorded)
    assert f"BOOT variable = {image},12;\nCONFIG_FILE variable" in console.show("show boot")
