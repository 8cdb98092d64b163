"""Several file systems, directories, renaming, local copies and plain verify."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.standin.files import sign
from tasks.file_system import read_listing
from templates.config_sections import missing_of_whole

CAPTURES = Path(__file__).parents[3] / "captures" / "lab"


def test_a_stack_has_a_flash_per_member(make_console: Callable[..., Any]) -> None:
    """The names of a member's flash mean the same files; each member has its own."""
    console = make_console("c9300-17.6")
    console.device.file_system("stby-flash").write("two.bin", b"22")
    assert "two.bin" in console.show("dir flash-2:")
    assert "Directory of flash-2:/two.bin" in console.show("dir stby-flash:two.bin")
    assert "two.bin" not in console.show("dir flash-1:")
    shown = console.show("show file systems")
    assert "disk     rw   flash: bootflash: flash-1:\n" in shown
    assert "disk     rw   flash-2: stby-flash:\n" in shown


def test_directories_hold_files(console: Any) -> None:
    """mkdir, a copy into it, dir of it, rmdir only when it is empty."""
    screen = console.type("mkdir flash:sub", "", "copy running-config flash:sub/run", "", "dir flash:sub")
    assert "Create directory filename [sub]? \nCreated dir bootflash:/sub\n" in screen
    assert "Directory of bootflash:/sub/\n" in screen.replace("sub\n\n", "sub/\n\n")
    assert "  run\n" in screen
    assert "drwx" in console.show("dir")
    assert "(Directory not empty)" in console.type("rmdir flash:sub", "", "")
    screen = console.type("delete /force flash:sub/run", "rmdir flash:sub", "", "")
    assert "Removed dir bootflash:/sub" in screen
    assert "drwx" not in console.show("dir")


def test_rename(console: Any) -> None:
    """The file keeps its contents; a name that is taken or absent is refused."""
    console.device.flash.write("a", b"1")
    console.device.flash.write("b", b"2")
    assert "(File exists)" in console.type("rename flash:a flash:b", "")
    console.type("rename flash:a flash:c", "")
    assert console.device.flash.find("c").path.read_bytes() == b"1"
    assert "(No such file or directory)" in console.type("rename flash:a flash:d", "")


def test_local_copies(console: Any) -> None:
    """A file to a file prints a C per 64 KiB; an existing one is asked for; a full flash is an error."""
    console.device.flash.write("a", b"x" * 200_000)
    screen = console.type("copy flash:a flash:b", "")
    assert "Copy in progress...CCCC\n200000 bytes copied in " in screen
    screen = console.type("copy flash:a flash:b", "", "n\\")
    assert (
        "%Warning:There is a file already existing with this name \nDo you want to over write? [confirm]n\n" in screen
    )
    console.device.faults = console.device.faults.with_switches({"flash_full": True})
    assert "%Error copying flash:c (Not enough space on device)" in console.type("copy flash:a flash:c", "")
    assert console.device.flash.find("c") is None
    assert "%Error opening bootflash:none (No such file or directory)" in console.type("copy flash:none flash:c")


def test_a_file_merges_into_the_running_configuration(console: Any) -> None:
    """Lines are added, a bad one is shown with its caret, and the rest is done all the same."""
    console.device.flash.write("m", b"ip tcp queuemax 9\nnonsense\nip tcp synwait-time 7\nend\n")
    screen = console.type("copy flash:m running-config", "")
    assert "nonsense\n ^\n% Invalid input detected at '^' marker.\n" in screen
    assert "ip tcp queuemax 9\nip tcp synwait-time 7\n" in console.device.running_text()


def test_verify_forms(console: Any) -> None:
    """Plain verify prints a dot per 4 KiB and finds no signature; the running configuration can be hashed."""
    console.device.flash.write("a", b"x" * 40_960)
    screen = console.type("verify flash:a", "verify /md5 system:/running-config")
    assert f"Verifying file integrity of bootflash:a{'.' * 10}\n%ERROR: Not able to process Signature in" in screen
    digest = hashlib.md5(console.device.running_text().encode(), usedforsecurity=False).hexdigest()
    assert f".Done!\nverify /md5 (system:/running-config) = {digest}\n\n" in screen


def test_configurations_are_files_too(console: Any) -> None:
    """`more` and `dir` read them under system: and nvram:."""
    assert console.show("more nvram:startup-config").startswith("!\n! Last configuration change")
    assert "<no date>  running-config\n\nNo space information available\n" in console.show("dir system:/running-config")


def test_a_large_file_is_copied_whole(console: Any) -> None:
    """A local copy prints one C per 65,536 bytes, and what arrives is what was there, also beyond 16 MiB."""
    device = console.device
    device.faults = device.faults.with_switches({"slow_flash_bytes_per_s": 1e9})
    device.flash.write("large.bin", bytes(range(256)) * 70_000)
    screen = console.type("copy flash:large.bin flash:twin.bin", "")
    assert "Copy in progress..." + "C" * 274 + "\n17920000 bytes copied in " in screen
    first, second = (device.flash.find(name).path.read_bytes() for name in ("large.bin", "twin.bin"))
    assert first == second


def test_copy_verify_of_what_is_not_there(console: Any, strangers: Callable[..., list[str]]) -> None:
    """The question, then the errors of the capture of IE3x00, with the names of this device."""
    screen = console.type("copy /verify flash:i3x.bin bootflash:", "").partition("bootflash:\n")[2].partition("r1#")[0]
    capture = (CAPTURES / "copy_verify_missing.txt").read_text(encoding="utf-8")
    assert strangers(screen, capture, ()) == []
    assert strangers(capture, screen, ()) == []


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_local_copy_may_be_verified(console: Any, is_signed: bool) -> None:
    """`file verify auto` keeps a signed image and deletes another, and says so behind the result."""
    console.device.flash.write("x.bin", sign(b"image") if is_signed else b"image")
    screen = console.type("configure terminal", "file verify auto", "end", "copy flash:x.bin flash:y.bin", "")
    assert ("Signature Verified" in screen) is is_signed
    assert ("%ERROR: Aborting copy.\n" in screen) is not is_signed
    assert (console.device.flash.find("y.bin") is not None) is is_signed


LONG = "c3750e-universalk9-mz.152-4.E10.bin"


@pytest.mark.parametrize(
    ("width", "switches", "is_broken"),
    [(80, {}, True), (511, {}, False), (0, {}, False), (511, {"dir_breaks_at_80": True}, True)],
)
def test_a_name_too_long_for_its_row_stands_on_the_next_line(console: Any, width, switches, is_broken) -> None:
    """At 80 columns, as a 3750-X shows it; with the fault whatever the terminal's width."""
    console.device.flash.write(LONG, b"x")
    console.device.faults = console.device.faults.with_switches(switches)
    screen = console.type(f"terminal width {width}", "dir")
    assert (f"\n{LONG}\n" in screen) is is_broken
    shown = "Directory of" + screen.partition("Directory of")[2].rpartition(" free)")[0] + " free)\n"
    assert read_listing(shown).doubt is None


def test_delete_may_ask_about_another_file_system(console: Any) -> None:
    """With the fault; `file prompt quiet` has it ask nothing."""
    console.device.flash.write(LONG, b"x")
    console.device.faults = console.device.faults.with_switches({"delete_asks_about": "flash-2"})
    assert f"Delete flash-2:/{LONG}? [confirm]" in console.type(f"delete bootflash:{LONG}", "", "n\\")
    console.type("configure terminal", "file prompt quiet")
    assert "confirm" not in console.type(f"delete bootflash:{LONG}")
    assert console.device.flash.find(LONG) is None


def test_a_restricted_user_sees_a_stub(console: Any) -> None:
    """It ends with `end`, and has no version and no host name."""
    console.device.faults = console.device.faults.with_switches({"restricted_view": True})
    assert missing_of_whole(console.show("show running-config").strip()) == ("version", "hostname")
