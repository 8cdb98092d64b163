"""Which trains cannot only add an image, and what their owners give instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.add import without_add
from templates.version import parse_version

CAPTURES = Path(__file__).parents[2] / "captures" / "show_version"
STACK = (CAPTURES / "c3850_install_mode_3.txt").read_text()
SWITCH = """\
Cisco IOS XE Software, Version {release}
Cisco IOS Software [Everest], Catalyst L3 Switch Software (CAT9K_IOSXE), Version {release}, RELEASE SOFTWARE (fc1)
System image file is "flash:packages.conf"
Switch Ports Model              SW Version        SW Image              Mode
------ ----- -----              ----------        ----------            ----
*    1 41    C9300-24P          {release}            CAT9K_IOSXE           {mode}
"""
REQUEST = "request platform software package install switch all file flash:x.bin auto-copy"


def older(text: str, path: str = "flash:x.bin", **known: bool) -> str | None:
    found = without_add(parse_version(text), path, **known)
    return found.command if found is not None else None


def test_a_3850_with_3x_has_software_install() -> None:
    """All four members are named, as the command wants it; of one switch its number."""
    assert older(STACK) == "software install file flash:x.bin switch 1-4"
    alone = "\n".join(line for line in STACK.splitlines() if not line.startswith(("     2", "     3", "     4")))
    assert older(alone) == "software install file flash:x.bin switch 1"


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("16.5.1a", REQUEST),
        ("16.6.1", REQUEST),
        ("16.6.2", None),
        ("16.6.6", None),
        ("17.6.1", None),
        ("17.12.4a", None),
    ],
)
def test_a_switch_before_16_6_2_has_request_platform(release, command) -> None:
    """From then on `install add` is there."""
    assert older(SWITCH.format(release=release, mode="INSTALL")) == command


@pytest.mark.parametrize("name", ["c9500_install_mode", "c3850_stack", "c8000v", "csr1000v", "2811", "1783_cms20dn"])
def test_others_are_not_taken_for_older(name) -> None:
    """16.9 adds, bundle mode has nothing to add to, and of a router `show version` alone tells nothing."""
    assert older((CAPTURES / f"{name}.txt").read_text()) is None


def test_a_router_is_older_by_what_it_does_not_know() -> None:
    """16.4 that knows no `show install summary`; of 17.x a missing one says nothing."""
    told = (CAPTURES / "csr1000v.txt").read_text()
    expand = "request platform software package expand file bootflash:x.bin"
    assert older(told, "bootflash:x.bin", knows_summary=False) == expand
    assert older(told.replace("16.4.1", "17.4.1"), knows_summary=False) is None


def test_an_archive_is_for_archive_download_sw() -> None:
    """On a switch that boots from a file; a `.bin` boots by being copied."""
    version = 'System image file is "flash:c2960x-universalk9-mz.152-7.E3.bin"\n'
    assert older(version, "flash:x.tar") == "archive download-sw /leave-old-sw flash:x.tar"
    assert older(version, "flash:x.bin") is None


def test_the_words_name_release_and_command() -> None:
    """The refusal says why nothing is given, hint and note what its owner gives."""
    found = without_add(parse_version(STACK), "flash:x.bin")
    assert found is not None
    assert "found 03.06.05E" in found.reason
    assert "also switches what boots next" in found.reason
    assert found.command in found.hint
    assert found.command in found.note
