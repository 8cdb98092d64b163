"""`show version` of real devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from ntc_templates.parse import parse_output

from templates.version import ntc_rows, parse_version

CAPTURES = Path(__file__).parents[2] / "captures" / "show_version"


@pytest.mark.parametrize(
    ("name", "release", "hardware", "file_system", "install_mode"),
    [
        ("2811", "15.1(3)T4", "2811", "flash", False),
        ("c9500_install_mode", "16.9.3", "C9500-40X", "flash", True),
        ("csr1000v", "16.4.1", "CSR1000V", "bootflash", True),
        ("1783_cms20dn", "17.10.20220708:150333", "1783-CMS20DN", "flash", False),
    ],
)
def test_release_hardware_and_image_line(name, release, hardware, file_system, install_mode):
    """Release, model, file system and boot mode are those of the capture."""
    found = parse_version((CAPTURES / f"{name}.txt").read_text())
    assert (found.release, found.hardware[0]) == (release, hardware)
    assert (found.image_file_system, found.install_mode) == (file_system, install_mode)
    assert not found.controller_managed


@pytest.mark.parametrize(
    ("line", "model"),
    [
        (
            "Allen-Bradley 1783-CMS20DN (ARM) processor (revision V00) with 634859K/6147K bytes of memory.",
            "1783-CMS20DN",
        ),
        ("Rockwell Automation 1783-X (ARM) processor with 634859K/6147K bytes of memory.", "1783-X"),
        ("Cisco 2811 (revision 53.51) with 774144K/12288K bytes of memory.", "2811"),
        ("Linux Unix (Intel-x86) processor with 735245K bytes of memory.", "Linux Unix"),
    ],
)
def test_the_model_whoever_made_the_device(line, model):
    """The line of the processor tells it, also where the maker is not Cisco."""
    assert parse_version(f'System image file is "flash:x.bin"\n\n{line}\nProcessor board ID 9X\n').hardware == (model,)


@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_hardware_is_what_the_whole_output_gives(capture):
    """Lines left out before ntc-templates parses the rest name no hardware."""
    text = capture.read_text()
    facts = ntc_rows("show version", text)
    whole = tuple(facts[0]["hardware"]) if facts else ()
    assert not whole or parse_version(text).hardware == whole


def test_controller_mode_is_seen():
    """A device that an SD-WAN controller configures says so, and is known as one."""
    assert parse_version("Router operating mode: Controller-Managed\n").controller_managed
    assert not parse_version("Router operating mode: Autonomous\n").controller_managed


def test_nothing_is_made_up_from_nothing():
    """Output without any fact gives empty facts, not an error."""
    found = parse_version("")
    assert (found.release, found.hardware, found.image_file_system) == ("", (), None)


def test_members_of_a_stack_and_an_image_from_the_network():
    """Five switches in bundle mode that were booted over TFTP: the active one is marked."""
    found = parse_version((CAPTURES / "c3850_stack.txt").read_text())
    assert [member.number for member in found.members] == [1, 2, 3, 4, 5]
    assert [member.number for member in found.members if member.active] == [1]
    assert (found.image_file_system, found.install_mode) == ("tftp", False)


def test_a_development_build_has_a_release():
    """Where the first line carries a label, the second one carries the release; the device is autonomous."""
    found = parse_version((CAPTURES / "c8000v.txt").read_text())
    assert (found.release, found.install_mode) == ("17.15.20240326:010319", True)
    assert not found.controller_managed


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_a_template_read_by_itself_finds_what_its_librarys_reader_finds(path):
    """The same template, without the index of all others."""
    text = path.read_text()
    assert list(ntc_rows("show version", text)) == parse_output("cisco_ios", "show version", text)
