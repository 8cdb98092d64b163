"""What is read of a device's software: each capture, and what a platform lacks told from what cannot be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashferry.devices.errors import DeviceRefused
from tasks.software_state import (
    Answer,
    Boot,
    Issu,
    Mode,
    Outcome,
    Topic,
    boot_files,
    boots,
    package_files,
    read_software,
    software_state,
)

CAPTURES = Path(__file__).parents[2] / "captures"
VERSION = "Cisco IOS XE Software, Version 17.06.01\n"
OLD_VERSION = "Cisco IOS XE Software, Version 16.6.6\n"


def capture(name: str) -> str:
    """Return a capture without the command's echo, which a session takes away."""
    lines = (CAPTURES / f"{name}.txt").read_text().splitlines()
    return "\n".join(line for line in lines if not re.match(r"\S*#?\s*show install summary", line)) + "\n"


def state(version: str = VERSION, **texts: str):
    """Return the state that some answers come to; topics by their lower-case names."""
    told = {Topic.VERSION: version, **{Topic[name.upper()]: text for name, text in texts.items()}}
    answers = {
        topic: Answer(command=topic.value, outcome=Outcome.READ, text=told[topic])
        if topic in told
        else Answer(command=topic.value, outcome=Outcome.NOT_THERE)
        for topic in Topic
    }
    return software_state(answers)


@pytest.mark.parametrize(
    ("name", "version", "packages", "timer"),
    [
        ("two_processors", VERSION, [(("R0", "R1"), "IMG", "I"), (("R0", "R1"), "IMG", "C")], ("inactive", "", "")),
        ("stack_in_two", VERSION, [(("1", "2"), "IMG", "C"), (("3",), "IMG", "U")], ("inactive", "", "")),
        ("without_timer", OLD_VERSION, [(("1",), "IMG", "C")], None),
        (
            "timer_after_activate",
            VERSION,
            [(("R0",), "SMU", "U"), (("R0",), "IMG", "C")],
            ("active", "install_activate", "01:49:42"),
        ),
        ("timer_with_blank", VERSION, [(("R0",), "IMG", "U")], ("active", "", "01:57:12")),
    ],
)
def test_summaries_of_every_kind_are_read(name, version, packages, timer):
    """Where each package is, its state, and the timer in both spellings; 16.6 has no line for it."""
    found = state(version, install=capture(f"show_install_summary/{name}"))
    assert found.answers[Topic.INSTALL].is_read
    assert [(row.places, row.type, row.state) for row in found.packages] == packages
    assert ((found.timer.state, found.timer.after, found.timer.left) if found.timer else None) == timer


SUMMARY = capture("show_install_summary/two_processors")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (SUMMARY[: SUMMARY.index("IMG   C")], VERSION),
        (SUMMARY[: SUMMARY.index("Auto")], VERSION),
        (SUMMARY.replace("IMG   I", "IMG   X"), VERSION),
        (SUMMARY.replace("IMG   I", "  strange words"), VERSION),
        (SUMMARY.replace("inactive", "perhaps"), VERSION),
        (SUMMARY + SUMMARY, VERSION),
        ("FAILED: install is busy", VERSION),
        (capture("show_install_summary/without_timer"), VERSION),
    ],
    ids=["cut in the table", "cut above the timer", "state", "line", "timer", "twice", "failed", "no timer, new"],
)
def test_a_summary_that_is_not_whole_is_unreadable(text, version):
    """Nothing of it counts: what is missing may be the other image, or a running timer."""
    found = state(version, install=text)
    assert found.answers[Topic.INSTALL].outcome is Outcome.UNREADABLE
    assert (found.packages, found.timer) == ((), None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "c9300_stack",
            [
                Boot(place=place, now="flash:packages.conf;", next="flash:packages.conf;", register=reg, manual=False)
                for place, reg in (("1", "0x102"), ("2", "0x102"))
            ],
        ),
        (
            "gibraltar",
            [Boot(place="1", now="", next="flash:packages.conf", register="0x102", manual=False)],
        ),
        (
            "asr1k",
            [
                Boot(place=place, now=paths, next=paths, register="0x2002")
                for place, paths in (
                    ("", "bootflash:/asr1000rpx.bin,12;"),
                    ("standby", "bootflash:/asr1000rpx.bin,12;"),
                )
            ],
        ),
        (
            "c9400",
            [
                Boot(place=place, now=paths, next=paths, register=register, manual=False)
                for place, paths, register in (
                    ("", "bootflash:packages.conf;", "0x102"),
                    ("standby", "bootflash:packages.conf;", None),
                )
            ],
        ),
    ],
)
def test_boot_tables_of_every_family_are_read(name, expected):
    """One value per member or supervisor; the register is taken from `show version` where the table has none."""
    assert list(boots(capture(f"show_boot/{name}"), register="0x102")) == expected


def test_the_blocks_of_an_older_stack_are_its_members():
    """The first block of a 2960 has no heading; the variable there is what is booted next."""
    found = boots(capture("show_boot/c2960x_stack"), register="0xF")
    assert [(one.place, one.files, one.manual) for one in found] == [
        (place, ("flash:/c2960x-universalk9-mz.152-4.E8.bin",), False) for place in ("", "2", "3")
    ]


def test_a_router_names_two_files_and_has_no_standby():
    """What is behind a comma is no part of a name."""
    (found,) = boots(capture("show_boot/asr1k_no_standby"))
    assert found.files == ("harddisk:/ISSUCleanGolden", "bootflash:12351822-iedge-asr-uut")
    assert (found.register, found.manual) == ("0x2", None)
    assert boot_files("") == ()


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("active_standby", [(1, "Active", "Ready"), (2, "Standby", "Ready")]),
        ("unprovisioned", [(1, "Active", "Ready"), (2, "Member", "Unprovisioned")]),
        ("master_member", [(1, "Master", "Ready"), (2, "Member", "Ready"), (3, "Member", "Ready")]),
    ],
)
def test_members_of_a_stack_are_read(name, units):
    """Number, role and state, by the words of new and old releases."""
    found = state(stack=capture(f"show_switch/{name}"))
    assert [(one.number, one.role, one.state) for one in found.units] == units
    assert found.is_stack


@pytest.mark.parametrize(
    "row",
    [
        " 2       Standby  04bd.977f.f400     1      V02     V-Mismatch  ",
        " 2       Member   0000.0000.0000     0      V02     Removed",
        " 2       Standby  04bd.977f.f400     1      V02     Initializing",
        " 2       Standby  04bd.977f.f400     1      V02     HA sync in progress",
        " 2       Standby  04bd.977f.f400     1              Not Ready",
    ],
)
def test_a_member_that_takes_no_part_is_not_ready(row):
    """Its state is all that stands behind the version of its hardware."""
    text = capture("show_switch/active_standby").splitlines()
    assert state(stack="\n".join((*text[:-1], row))).units[1].state != "Ready"


def test_a_row_of_a_member_that_cannot_be_read_makes_the_table_unreadable():
    """The member would be missing otherwise, and all others ready."""
    text = capture("show_switch/active_standby").replace("1      V02     Ready  ", "1")
    found = state(stack=text)
    assert (found.answers[Topic.STACK].outcome, found.units) == (Outcome.UNREADABLE, ())


@pytest.mark.parametrize(
    ("text", "issu"),
    [
        (capture("show_issu_state_detail/idle"), Issu.IDLE),
        (capture("show_issu_state_detail/accepted"), Issu.GOING_ON),
        (capture("show_issu_state_detail/c6500"), Issu.IDLE),
        (capture("show_issu_state_detail/c6500").replace("Init", "Load Version"), Issu.GOING_ON),
        ("--- Starting local lock acquisition on R0 ---\n", Issu.UNKNOWN),
    ],
)
def test_an_upgrade_in_service_is_seen(text, issu):
    """An accepted one still waits to be committed; locks alone say nothing."""
    assert state(issu=text).issu is issu


def test_supervisors_are_read_or_unknown():
    """A device alone is simplex; an output that ends above the mode says nothing."""
    text = capture("show_redundancy_states/simplex")
    assert not state(redundancy=text).has_standby
    assert state(redundancy=text.replace("Simplex", "Duplex")).has_standby
    cut = state(redundancy=text[: text.index("Mode")])
    assert (cut.redundancy, cut.answers[Topic.REDUNDANCY].outcome) == (None, Outcome.UNREADABLE)


def test_files_of_a_provisioning_file_are_told_once():
    """Comments in it look alike and are none."""
    assert package_files(capture("packages_conf/c9200l")) == (
        "cat9k_lite-rpboot.17.09.05.SPA.pkg",
        "cat9k_lite-rpbase.17.09.05.SPA.pkg",
        "cat9k_lite-webui.17.09.05.SPA.pkg",
        "cat9k_lite-srdriver.17.09.05.SPA.pkg",
    )


@pytest.mark.parametrize(
    ("name", "mode", "running"),
    [
        ("c9500_install_mode", Mode.INSTALL, "flash:packages.conf"),
        ("c8000v", Mode.INSTALL, "bootflash:packages.conf"),
        ("2811", Mode.BUNDLE, "flash:c2800nm-adventerprisek9_ivs_li-mz.151-3.T4.bin"),
    ],
)
def test_how_a_device_boots(name, mode, running):
    """By the table of members, or by the name of the file it was started from."""
    found = state(capture(f"show_version/{name}"))
    assert (found.mode, found.running_file) == (mode, running)


ANSWERS = {
    "show version": capture("show_version/c9500_install_mode"),
    "show install summary": SUMMARY,
    "show boot": capture("show_boot/c9300_stack"),
    "show redundancy states": capture("show_redundancy_states/simplex"),
    "show privilege": "Current privilege level is 15\n",
    "more flash:packages.conf": capture("packages_conf/c9200l"),
}
LOG = "*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from console by console\n"


def test_what_a_platform_lacks_is_told_from_what_cannot_be_read(table_device):
    """A caret means that it is not there; AAA's refusal says nothing about the device."""
    device = table_device({**ANSWERS, "show install summary": "Command authorization failed.\n"})
    found = read_software(device)
    assert {topic.value: one.outcome.value for topic, one in found.answers.items()} == {
        "version": "read",
        "install": "unreadable",
        "boot": "read",
        "stack": "not there",
        "redundancy": "read",
        "issu": "not there",
        "packages": "read",
    }
    assert "authorization failed" in found.answers[Topic.INSTALL].text


def test_a_caret_says_nothing_where_the_user_may_not_give_all(table_device):
    """The parser hides from him what the platform has."""
    found = read_software(table_device({**ANSWERS, "show privilege": "Current privilege level is 7\n"}))
    assert found.answers[Topic.STACK].outcome is Outcome.UNREADABLE
    assert found.issu is Issu.UNKNOWN


def test_routers_tell_by_another_word_and_bundle_mode_is_asked_less(table_device):
    """Where `show boot` is not known `show bootvar` is; a device in bundle mode has no packages to ask about."""
    answers = {"show version": capture("show_version/2811"), "show bootvar": capture("show_boot/asr1k_no_standby")}
    device = table_device(answers)
    device.answers = {**answers, "show boot": "      ^\n% Invalid input detected at '^' marker.\n"}
    device.answers = {"show bootvar": answers["show bootvar"], **device.answers}
    found = read_software(device)
    assert found.answers[Topic.BOOT].command == "show bootvar"
    assert found.mode is Mode.BUNDLE
    assert found.answers[Topic.INSTALL].outcome is found.answers[Topic.PACKAGES].outcome is Outcome.NOT_ASKED


def test_log_lines_and_silence(table_device):
    """A log line in the middle of an output is none of it; an output of log lines alone is none."""
    head, tail = SUMMARY.split("IMG   C")
    device = table_device({**ANSWERS, "show install summary": f"{head}{LOG}IMG   C{tail}", "show issu": LOG})
    found = read_software(device)
    assert found.versions("I") == found.versions("C") == ("10.106.1.0.277",)
    assert (found.answers[Topic.ISSU].outcome, found.issu) == (Outcome.EMPTY, Issu.NOT_THERE)


def test_a_lost_word_about_the_user_counts_as_none(table_device):
    """If even the level is refused, no caret is believed."""
    device = table_device({name: text for name, text in ANSWERS.items() if name != "show privilege"})
    with pytest.raises(DeviceRefused):
        device.ask("show privilege")
    assert read_software(device).answers[Topic.STACK].outcome is Outcome.UNREADABLE
