"""A device that does not run IOS is called what it seems to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.devices.prompts import not_ios, other_system, other_system_at

DEVICES = Path(__file__).parents[2] / "captures" / "platforms" / "devices.txt"

OUTPUTS = {
    "NX-OS": "Cisco Nexus Operating System (NX-OS) Software\nTAC support: ...\n  NXOS: version 9.3(5)\n",
    "IOS-XR": "Cisco IOS XR Software, Version 7.3.2\nCopyright (c) 2013-2021 by Cisco Systems, Inc.\n",
    "ASA": "\nCisco Adaptive Security Appliance Software Version 9.12(4)\nSSP Operating System Version 2.6(1.204)\n",
    "Junos": "Hostname: r1\nModel: mx240\nJunos: 21.4R3-S2.3\nJUNOS OS Kernel 64-bit  [20220601]\n",
    "EOS": "Arista DCS-7050SX3-48YC8-F\nHardware version: 11.00\nSoftware image version: 4.27.3F\n",
    "VRP": "Huawei Versatile Routing Platform Software\nVRP (R) software, Version 8.180\n",
    "Linux": "-bash: show: command not found\n",
}


@pytest.mark.parametrize("system", OUTPUTS)
def test_each_system_is_told_by_its_show_version(system: str) -> None:
    """In the sentence stands what it seems to be, and no word about flash."""
    assert other_system(OUTPUTS[system]) == system
    reason, hint = not_ios(system)
    assert reason == f"this is not IOS: it seems to be {system}"
    assert "flash:" not in reason + hint


@pytest.mark.parametrize(
    ("refusal", "system"),
    [
        ("'show version': Error: Unrecognized command found at '^' position.", "VRP"),
        ("sh: 1: show: not found", "Linux"),
        ("'show version': Command authorization failed.", None),
        ("% Invalid input detected at '^' marker.", None),
    ],
)
def test_a_refused_command_may_tell_it_too(refusal: str, system: str | None) -> None:
    """A refusal by IOS tells nothing."""
    assert other_system(refusal) == system


@pytest.mark.parametrize("block", DEVICES.read_text(encoding="utf-8").split("\n=== ")[1:])
def test_no_ios_is_taken_for_another_system(block: str) -> None:
    """Every captured device, and one whose banner names another system."""
    lines = block.partition("\n")[2]
    assert other_system(lines) is None
    assert other_system(f"Uplink to the NX-OS core, Linux jump host\n{lines}") is None


@pytest.mark.parametrize(
    ("line", "system"),
    [
        ("RP/0/RP0/CPU0:r1#", "IOS-XR"),
        ("<HUAWEI>", "VRP"),
        ("admin@r1> ", "Junos"),
        ("admin@host:~$ ", "Linux"),
        ("[root@host ~]# ", "Linux"),
        ("r1#", None),
        ("[OK]", None),
        ("r1>", None),
        ("Username: ", None),
        ("", None),
    ],
)
def test_a_prompt_tells_it_where_the_login_ends_there(line: str, system: str | None) -> None:
    """None of IOS's prompts is another system's."""
    assert other_system_at(line) == system
