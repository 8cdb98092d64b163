"""What a look at a device decides, and how little it asks for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceRefused, OutputNotUnderstood
from flashferry.images.image import Image
from flashferry.images.image_platform_match import Fits
from flashferry.transports import transport_named
from inventory.transport_policy import TransportPolicy
from tasks.check import Fetching, ProvenFile, ReturnPath, TargetImage, check_device
from tasks.fetch_check import refusal_before_copy
from tasks.read_config import read_running
from tasks.verify import VerifyReport

CAPTURES = Path(__file__).parents[2] / "captures"
IMAGE = TargetImage(
    image=Image(name="image.bin", size_bytes=1000, md5="a" * 32, sha512="b" * 128),
    inside="c8000v-universalk9.17.12.04.SPA.bin",
)
OTHER = "c2900-universalk9-mz.SPA.157-3.M.bin"
SAVED = "! Last configuration change at 10:00:00 UTC Fri Nov 20 2026 by bob\n"
LATER = "! Last configuration change at 10:00:01 UTC Fri Nov 20 2026 by bob\n"


def listing(*files: str, free: int = 10_000_000) -> str:
    return "Directory of bootflash:/\n\n" + "".join(files) + f"\n20000000 bytes total ({free} bytes free)\n"


def file(size: int = 1000) -> str:
    return f"16      -rw-             {size}  Apr 22 2024 09:55:24 +02:00  image.bin\n"


def answers(**changed: str) -> dict[str, str]:
    return {
        "show version": (CAPTURES / "show_version/c8000v.txt").read_text(),
        "dir bootflash:": changed.pop("dir", listing()),
        "show running-config": changed.pop("running", SAVED),
        "show startup-config": changed.pop("startup", SAVED),
        "show privilege": changed.pop("privilege", "Current privilege level is 15\n"),
        **{name.replace("_", " "): text for name, text in changed.items()},
    }


def test_a_fit_device_is_asked_five_things(table_device):
    """Version, files, running and startup lines, privilege: nothing refused, nothing to note, nothing more asked."""
    device = table_device(answers())
    report = check_device(device, IMAGE)
    assert (report.refusal, report.notes, report.already_there) == (None, (), False)
    assert (report.file_system, report.free_bytes) == ("bootflash:", 10_000_000)
    assert report.configuration.saved is True
    assert len(device.asked) == 5


def test_an_image_of_another_platform_is_refused_unless_insisted_on(table_device):
    """The sentence names both, the hint the option; with it the device is fit, and a note says what is known."""
    image = replace(IMAGE, image=replace(IMAGE.image, name=OTHER), inside=None)
    report = check_device(table_device(answers()), image)
    reason = (
        f"{OTHER} is for the family 2900 (by its name), this is a C8000V (Catalyst 8000V), which runs packages.conf"
    )
    assert (report.refusal, report.image.fits, report.notes) == (reason, Fits.NO, ())
    assert report.refusal_hint == "Give it an image of its own platform; --any-image has this one staged all the same"
    insisted = check_device(table_device(answers()), replace(image, is_insisted=True))
    assert (insisted.refusal, insisted.refusal_hint) == (None, None)
    assert insisted.notes == (f"{reason}; staged all the same (--any-image)",)


def test_an_image_is_known_by_its_inside(table_device):
    """A renamed image of another platform is refused as under its own name."""
    report = check_device(table_device(answers()), replace(IMAGE, inside="cat9k_iosxe.17.09.04.SPA.bin"))
    assert "by the name inside the file, cat9k_iosxe.17.09.04.SPA.bin" in report.refusal


def test_an_image_that_tells_no_platform_is_noted_and_not_refused(table_device):
    """It is never called fit for the device, nor wrong."""
    report = check_device(table_device(answers()), replace(IMAGE, inside=None))
    assert (report.refusal, report.image.fits) == (None, Fits.UNKNOWN)
    why = "neither its name nor the file shows a platform known here: image.bin"
    assert report.notes == (f"whether the image is for this device is not known: {why}",)


def test_an_image_that_is_there_is_not_refused_for_its_platform(table_device):
    """What is proven to be there is not copied: whether it should be is nobody's question now."""
    image = replace(IMAGE, image=replace(IMAGE.image, name=OTHER), inside=None)
    there = listing(file().replace("image.bin", image.image.name))
    device = table_device(answers(dir=there, verify=f"verify /sha512 (bootflash:{image.image.name}) = {'b' * 128}\n"))
    report = check_device(device, image)
    assert (report.already_there, report.refusal) == (True, None)


def test_a_line_of_ours_in_a_text_of_an_unknown_kind_is_refused(table_device):
    """Whether it is a command cannot be told, so it is neither kept as one nor passed over; a known script is text."""
    script = "service-script LINK {\nif [[ $LINKUP == YES ]]\nip tcp window-size 12345\nfi\n}\nhostname r1\n"
    with pytest.raises(OutputNotUnderstood, match="'ip tcp window-size 12345' is in what may be embedded text"):
        check_device(table_device(answers(running=SAVED + script)), IMAGE)
    known = script.replace("service-script", "macro auto execute")
    assert check_device(table_device(answers(running=SAVED + known)), IMAGE).running.lines == ()


def test_every_line_that_a_run_may_change_is_read(table_device):
    """A dry run plans by what the check read, a run by its snapshot: both must see the same lines."""
    lines = ("no ip tcp timestamp", "ip tcp window-size 70000", "ip ftp source-interface Loopback0")
    text = SAVED + "\n".join(lines) + "\nhostname r1\n"
    device = table_device(answers(running=text, startup=text))
    report = check_device(device, IMAGE)
    assert report.running.lines == report.startup.lines == lines
    assert read_running(device).tcp == report.running


def test_a_banner_is_not_read_as_configuration(table_device):
    """Neither as a line of ours, nor as an archive, a lock or a command that a level may use."""
    text = (
        SAVED + "banner motd ^C\nip tcp window-size 12345\narchive\naaa authorization commands 15 x\n^C\nhostname r1\n"
    )
    report = check_device(table_device(answers(running=text)), IMAGE)
    assert report.running.lines == ()
    assert report.authorization.aaa == ()


@pytest.mark.parametrize(
    "row",
    [
        "    2  -rw-        1000                    image.bin\n",
        "    2  -rw-        1000  <no date>         image.bin\n",
        "    2  -rw-  -     1000  image.bin\n",
        "    2  -rwx        1000  Mar 1 1993 00:03:12.1234567 +00:00  image.bin\n",
    ],
)
def test_a_file_without_a_date_is_a_file(table_device, row):
    """Old IOS prints none: the image is there, and no room need be made for it."""
    told = answers(dir=listing(row, free=0)) | {
        "verify /sha512": f"verify /sha512 (bootflash:/image.bin) = {'b' * 128}"
    }
    assert check_device(table_device(told), IMAGE).already_there


def test_a_row_that_cannot_be_read_is_not_taken_for_none(table_device):
    """It ends with the image's name: nobody could say that the image is not there."""
    device = table_device(answers(dir=listing("2;-rw-;1000 of image.bin\n")))
    with pytest.raises(OutputNotUnderstood, match=r"'dir bootflash:image\.bin': expected the file or its absence"):
        check_device(device, IMAGE)


LONG = "c8000v-universalk9.17.12.04.with-a-name-too-long.SPA.bin"
LONG_IMAGE = replace(IMAGE, image=replace(IMAGE.image, name=LONG))
ABSENT = f"%Error opening bootflash:/{LONG} (No such file or directory)\n"
WRAPPED = listing(f"16      -rw-          {{}}  Apr 22 2024 09:55:24 +02:00  \n{LONG}\n")
STRAY = listing(file(), "the-rest-of-a-name\n")
QUIET = SAVED + "file prompt quiet\nhostname r1\n"


@pytest.mark.parametrize("running", [SAVED, QUIET], ids=["asks", "asks nothing"])
def test_a_file_whose_name_stands_on_the_next_line_is_in_the_way(table_device, running):
    """At 80 columns `dir` breaks a long name: the file is there, and nothing is copied over it."""
    report = check_device(table_device(answers(dir=WRAPPED.format(7), running=running)), LONG_IMAGE)
    assert f"bootflash:{LONG} exists with other contents (7 bytes, expected 1000)" in str(report.refusal)


def test_a_listing_that_does_not_tell_is_asked_by_name(table_device):
    """A line that is no row may be any file: the device is asked for that one, and its word counts."""
    asked = {f"dir bootflash:{LONG}": ABSENT}
    report = check_device(table_device(asked | answers(dir=STRAY)), LONG_IMAGE)
    assert (report.refusal, report.overwrites_silently) == (None, False)


@pytest.mark.parametrize("words", [None, "Command authorization failed."])
def test_a_device_that_asks_nothing_needs_a_listing_that_proves(table_device, words):
    """With `file prompt quiet` the word of one command is too little: refused, with what makes the listing break."""
    device = table_device({f"dir bootflash:{LONG}": ABSENT} | answers(dir=STRAY, running=QUIET))
    device.width_refusal = words
    report = check_device(device, LONG_IMAGE)
    assert report.overwrites_silently
    assert "the listing of bootflash: does not prove that there is no" in str(report.refusal)
    assert "found 'the-rest-of-a-name'" in str(report.refusal)
    assert ("'terminal width 511', which the device refuses" in str(report.refusal_hint)) is bool(words)
    assert "'no file prompt quiet'" in str(report.refusal_hint)


@pytest.mark.parametrize(
    ("by_name", "shown", "words"),
    [
        (ABSENT, listing(file()), None),
        (ABSENT, STRAY, "does not prove"),
        (ABSENT, listing(file())[:-20], "does not prove"),
        (listing(file(7).replace("image.bin", LONG)), listing(file()), "exists with other contents (7 bytes"),
    ],
    ids=["twice absent", "a line too many", "cut off", "there by its name"],
)
def test_a_device_that_asks_nothing_is_asked_twice_right_before_the_copy(table_device, by_name, shown, words):
    """The whole listing and the name alone must both say that no such file is there."""
    device = table_device({f"dir bootflash:{LONG}": by_name, "dir bootflash:": shown})
    found = refusal_before_copy(device, "bootflash:", LONG_IMAGE.image, overwrites_silently=True)
    assert found is None if words is None else words in str(found)


@pytest.mark.parametrize("name", ["IMAGE.BIN", "Image.bin"])
def test_a_file_whose_name_differs_in_case_only_is_in_the_way(table_device, name):
    """A FAT flash would take it for the target and overwrite it."""
    report = check_device(table_device(answers(dir=listing(file().replace("image.bin", name)))), IMAGE)
    assert f"bootflash:{name} exists, which a file system may take for image.bin" in str(report.refusal)


@pytest.mark.parametrize(
    ("shown", "refusal"),
    [
        (listing(), None),
        (listing(file(7)), "exists with other contents"),
        (listing(file(7).replace("image.bin", "IMAGE.bin")), "may take for image.bin"),
        (listing(free=10), "has 10 bytes free"),
    ],
)
def test_the_look_right_before_the_copy(table_device, shown, refusal):
    """A file may have come since the check, or the room gone."""
    found = refusal_before_copy(table_device({"dir bootflash:": shown}), "bootflash:", IMAGE.image)
    assert found is None if refusal is None else refusal in str(found)


@pytest.mark.parametrize("there", [True, False])
def test_a_device_in_another_controllers_hands_is_refused(table_device, there):
    """Also where the image is there already: a dead run's lines must not pass for a device that is fine."""
    mark = "alias exec flashferry-20261122-1 you@there\n"
    told = answers(running=SAVED + mark, dir=listing(*([file()] if there else [])))
    told |= {"verify /sha512": f"verify /sha512 (bootflash:/image.bin) = {'b' * 128}"}
    report = check_device(table_device(told), IMAGE)
    assert not report.already_there
    assert "run 20261122-1 of you@there holds this device" in str(report.refusal)
    assert "'no alias exec flashferry-20261122-1'" in str(report.refusal_hint)


def test_an_image_that_is_there_is_proven_and_nothing_more_is_asked(table_device):
    """Size and SHA-512 prove it; privilege and locks are of no concern, for nothing will be changed."""
    told = answers(dir=listing(file()), running=LATER) | {
        "verify /sha512": f"...Done!\nverify /sha512 (bootflash:image.bin) = {'b' * 128}"
    }
    device = table_device(told)
    report = check_device(device, IMAGE)
    assert report.already_there
    assert (report.proof.algorithm, report.proof.md5) == ("sha512", "a" * 32)
    assert [command.split(" |")[0] for command in device.asked] == [
        "show version", "dir bootflash:", "verify /sha512 bootflash:image.bin", "show running-config",
        "show startup-config",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("modified", "path", "is_hashed"),
    [
        ("Apr 22 2024 09:55:24 +02:00", "bootflash:image.bin", False),
        ("Apr 22 2024 09:55:25 +02:00", "bootflash:image.bin", True),
        ("Apr 22 2024 09:55:24 +02:00", "flash2:image.bin", True),
        ("", "bootflash:image.bin", True),
    ],
)
def test_what_the_device_proved_a_while_ago_is_hashed_again_where_it_may_be_another_file(
    table_device, modified, path, is_hashed
):
    """Written to since, at another place, or not looked at then; a file as it was keeps its proof."""
    told = answers(dir=listing(file())) | {
        "verify /sha512": f"...Done!\nverify /sha512 (bootflash:image.bin) = {'b' * 128}"
    }
    device = table_device(told)
    proof = VerifyReport(path=path, md5="a" * 32, duration_s=70.0, algorithm="sha512", digest="b" * 128)
    report = check_device(device, replace(IMAGE, proven=ProvenFile(report=proof, modified=modified)))
    assert report.already_there
    assert any(command.startswith("verify") for command in device.asked) is is_hashed
    assert (report.proof is proof) is not is_hashed


def test_a_proof_does_not_outweigh_another_size(table_device):
    """It is of a file that is not there any more."""
    proof = VerifyReport(path="bootflash:image.bin", md5="a" * 32, duration_s=70.0)
    known = ProvenFile(report=proof, modified="Apr 22 2024 09:55:24 +02:00")
    report = check_device(table_device(answers(dir=listing(file(999)))), replace(IMAGE, proven=known))
    assert not report.already_there


def test_md5_where_the_release_knows_no_sha512(table_device):
    """An old release refuses the keyword and is asked for MD5."""
    told = answers(dir=listing(file())) | {"verify /md5": f"...Done!\nverify /md5 (bootflash:/image.bin) = {'A' * 32}"}
    report = check_device(table_device(told), IMAGE)
    assert report.already_there
    assert (report.proof.algorithm, report.proof.digest) == ("md5", "a" * 32)


@pytest.mark.parametrize(("size", "words"), [(999, "999 bytes, expected 1000"), (1000, "1000 bytes, but another hash")])
def test_another_file_of_that_name(table_device, size, words):
    """Other size or other hash: refused, with what was found, and never overwritten."""
    told = answers(dir=listing(file(size))) | {
        "verify /sha512": f".Done!\nverify /sha512 (bootflash:image.bin) = {'c' * 128}"
    }
    report = check_device(table_device(told), IMAGE)
    assert not report.already_there
    assert words in report.refusal
    assert "nothing is overwritten" in report.refusal


def test_the_operator_stops_a_hash(table_device):
    """Ctrl-C while the device hashes ends the check with a word on it."""
    told = answers(dir=listing(file())) | {"verify": ""}
    with pytest.raises(OutputNotUnderstood, match="stopped by the operator"):
        check_device(table_device(told), IMAGE, interrupted=lambda: True)


def test_room_is_asked_with_a_margin(table_device):
    """An image that fits exactly does not fit."""
    assert (
        "1000 bytes free, the image needs 1000"
        in check_device(table_device(answers(dir=listing(free=1000))), IMAGE).refusal
    )
    assert check_device(table_device(answers(dir=listing(free=1021))), IMAGE).refusal is None


def test_a_device_that_does_not_tell_its_room(table_device):
    """`No space information available` is a note, not a refusal."""
    report = check_device(
        table_device(answers(dir="Directory of bootflash:/\n\nNo space information available\n")), IMAGE
    )
    assert report.refusal is None
    assert "does not say how much room" in report.notes[0]


def full_member(mode: str) -> dict[str, str]:
    """Return the answers of a stack in a mode whose second member has 500 bytes free."""
    return answers() | {
        "show version": (CAPTURES / "show_version/c3850_stack.txt").read_text().replace("BUNDLE", mode),
        "show file systems": (CAPTURES / "show_file_systems/iosxe.txt").read_text().replace("3943694336", "500"),
        "dir flash:": listing().replace("bootflash", "flash"),
    }


def test_a_full_member_of_a_stack_is_named(table_device):
    """In install mode the copy lands on the active member; another one without room is named, with its file system."""
    report = check_device(table_device(full_member("INSTALL")), IMAGE)
    assert (report.file_system, report.refusal) == ("flash:", None)
    assert [(one.file_system, one.free_bytes) for one in report.members] == [
        ("flash-2:", 500),
        ("flash-3:", 4922015744),
    ]
    note, unsure = report.notes
    # This stand-in names a model that its `show version` does not: then nothing is concluded.
    assert unsure.startswith("whether the image is for this device is not known")
    assert note.startswith("flash-2: of another stack member has 500 bytes free")


def test_a_full_member_that_boots_from_its_own_file_is_refused(table_device):
    """In bundle mode the image is handed on to each member: one without room is told before the copy."""
    report = check_device(table_device(full_member("BUNDLE")), IMAGE)
    assert report.refusal.startswith("flash-2: of another member has 500 bytes free, the image needs 1000")


def test_what_is_to_be_added_needs_its_size_twice(table_device):
    """With --add a device in install mode is refused where the copy alone would fit."""
    told = full_member("INSTALL") | {"dir flash:": listing(free=2000).replace("bootflash", "flash")}
    told["show version"] = told["show version"].replace("16.4.20170410:165034", "16.9.3")  # which has `install add`
    adding = check_device(table_device(told), replace(IMAGE, adds=True))
    assert "and as much again for 'install add'" in adding.refusal
    assert check_device(table_device(told), IMAGE).refusal is None


def test_a_device_without_flash(table_device):
    """IOL: no file system that takes files, and the hint says so."""
    told = answers() | {
        "show version": 'Cisco IOS Software, Linux Software (X-M), Version 17.15.1\nSystem image file is "unix:/iol"\n',
        "show file systems": "File Systems:\n*            -             -    opaque     rw   system:\n",
    }
    with pytest.raises(OutputNotUnderstood) as caught:
        check_device(table_device(told), IMAGE)
    assert "IOL" in caught.value.hint


def test_a_controller_owns_its_device(table_device):
    """SD-WAN controller mode is refused before anything else."""
    told = answers()
    told["show version"] = told["show version"].replace("mode: Autonomous", "mode: Controller-Managed")
    assert "SD-WAN controller" in check_device(table_device(told), IMAGE).refusal


def test_an_unprivileged_session(table_device):
    """The user prompt is refused with what to give."""
    device = table_device(answers())
    device.privileged = False
    with pytest.raises(DeviceRefused) as caught:
        check_device(device, IMAGE)
    assert "privilege 15" in caught.value.hint


def test_a_newer_stamp_is_no_proof_of_a_change(table_device):
    """The stamp moves without a change: the device compares, and equal configurations are saved ones."""
    told = answers(running=LATER) | {
        "show archive config differences": "!Contextual Config Diffs:\n!No changes were found\n"
    }
    report = check_device(table_device(told), IMAGE)
    assert (report.configuration.saved, report.notes) == (True, ())


@pytest.mark.parametrize(
    ("differences", "words"),
    [
        ("!Contextual Config Diffs:\n+ip tcp timestamp\n-no x\n", "(2 lines differ)"),
        (None, "is not saved; last changed"),
    ],
)
def test_an_unsaved_configuration_is_noted(table_device, differences, words):
    """A warning with who and when, and how many lines where the device can tell; not a refusal."""
    told = answers(running=LATER) | ({"show archive config differences": differences} if differences else {})
    report = check_device(table_device(told), IMAGE)
    assert (report.configuration.saved, report.refusal) == (False, None)
    assert words in report.notes[0]
    assert "by bob" in report.notes[0]


def test_a_locked_configuration_is_refused(table_device):
    """Where the exclusive mode is configured the lock is asked for, and its holder named."""
    lock = "Parser Configure Lock\nOwner PID : 3\nUser : bob\nTTY : 2\nType : EXCLUSIVE\nState : LOCKED\n"
    told = answers(running=f"{SAVED}configuration mode exclusive auto\n") | {"show configuration lock": lock}
    assert "locked by user 'bob' on line 2" in check_device(table_device(told), IMAGE).refusal


def test_a_pending_rollback_is_refused(table_device):
    """Where an archive is configured a pending rollback would take our lines with it."""
    timer = "Time configured(or reconfigured): 10:00\nTimer type: absolute timer\nTimer value: 5 min\nUser: bob\n"
    told = answers(running=f"{SAVED}archive\n") | {"show archive config rollback timer": timer}
    assert "armed by 'bob' at 10:00, 5 min" in check_device(table_device(told), IMAGE).refusal


def test_what_the_inventory_names_must_be_there(table_device):
    """A VRF that is not defined, and an interface that is down, are refused by name."""
    running = f"{SAVED}vrf definition Mgmt-intf\nip vrf old\n"
    assert (
        check_device(table_device(answers(running=running)), IMAGE, return_path=ReturnPath(vrf="old")).refusal is None
    )
    refused = check_device(
        table_device(answers(running=running)), IMAGE, return_path=ReturnPath(vrf="mgmt-intf")
    ).refusal
    assert refused.startswith("VRF 'mgmt-intf' of the inventory: the device has Mgmt-intf, old")
    told = answers() | {"show ip interface brief": (CAPTURES / "show_ip_interface_brief/c2960.txt").read_text()}
    assert check_device(table_device(told), IMAGE, return_path=ReturnPath(source_interface="Vl20")).refusal is None
    assert (
        "Vlan1 of the inventory has no IPv4 address"
        in check_device(table_device(told), IMAGE, return_path=ReturnPath(source_interface="Vlan1")).refusal
    )


def test_aaa_is_tried_without_effect(table_device):
    """With command authorization, copy and verify are tried on a file that is not there; configure stays unproven."""
    told = answers(running=f"{SAVED}aaa authorization commands 15 default group tacacs+ local\n") | {
        "copy bootflash:flashferry-no-such-file null:": "%Error opening bootflash:/x (No such file or directory)\n",
        "verify /md5": "Command authorization failed.\n",
    }
    report = check_device(table_device(told), IMAGE)
    assert report.refusal.startswith(
        "at privilege level 15 the user may not use 'verify' (Command authorization failed.)"
    )
    assert report.authorization.unproven == ("configure terminal",)
    assert "AAA decides about each command" in report.notes[0]


@pytest.mark.parametrize(("lowered", "may"), [("", False), ("privilege exec level 7 configure\n", True)])
def test_a_lower_level_needs_its_commands_lowered(table_device, lowered, may):
    """`enable 7` shows the privileged prompt too; only a `privilege exec` line gives it configuration mode."""
    told = answers(privilege="Current privilege level is 7\n", running=SAVED + lowered) | {"copy": "", "verify": ""}
    report = check_device(table_device(told), IMAGE)
    assert (report.refusal is None) == may


FILE_SYSTEMS = """\
File Systems:

       Size(b)       Free(b)      Type  Flags  Prefixes
*   1940303872    1036210176      disk     rw   bootflash: flash:
             -             -   network     rw   tftp:
"""


def fetching(*names: str, is_stated: bool = True) -> Fetching:
    return Fetching(transports=tuple(map(transport_named, names)), is_stated=is_stated, link_rate_bps=50e6)


def test_a_protocol_that_the_inventory_names_is_looked_for(table_device):
    """One command more; without such a word in the inventory not even that."""
    told = answers(show_file_systems=FILE_SYSTEMS)
    report = check_device(table_device(told), IMAGE, fetching=fetching("http", "scp"))
    assert "found tftp: only; TFTP is no transport of ours" in report.refusal
    device = table_device(told)
    report = check_device(device, IMAGE, fetching=fetching("ftp", "http", is_stated=False))
    assert (report.refusal, len(device.asked)) == (None, 5)
    assert [one.transport for one in report.ceilings] == ["ftp", "http"]
    told = answers(show_file_systems=FILE_SYSTEMS.replace("tftp:", "scp:"))
    assert check_device(table_device(told), IMAGE, fetching=fetching("http", "scp")).refusal is None


def test_a_device_that_is_pushed_to_need_not_fetch(table_device):
    """An inventory that names push, alone or last, is no ground to refuse a device that lists none of the others."""
    for names in ((), ("scp",)):
        told = answers(show_file_systems=FILE_SYSTEMS)
        pushed = replace(fetching(*names), may_be_pushed=True)
        assert check_device(table_device(told), IMAGE, fetching=pushed).refusal is None
    policy = TransportPolicy(stated=("scp", "push"))
    made = Fetching.of(SimpleNamespace(transport_policy=policy, cap_bps=None))
    assert (made.may_be_pushed, [one.name for one in made.transports]) == (True, ["scp"])


def test_https_without_a_trustpoint(table_device):
    """Refused where nothing else is allowed, noted where something is."""
    told = answers(show_file_systems=FILE_SYSTEMS.replace("tftp:", "https: scp:"))
    alone = check_device(table_device(told), IMAGE, fetching=fetching("https"))
    assert alone.refusal.startswith("HTTPS needs a trustpoint of our certificate's authority")
    beside = check_device(table_device(told), IMAGE, fetching=fetching("scp", "https"))
    assert beside.refusal is None
    assert beside.notes[0].startswith("HTTPS needs a trustpoint")
    assert [one.transport for one in beside.ceilings] == ["scp"], "how fast what it would refuse can be is no news"
    told |= {"show running-config": f"{SAVED}crypto pki trustpoint Company-CA\n"}
    trusting = check_device(table_device(told), IMAGE, fetching=fetching("https"))
    assert (trusting.refusal, trusting.trustpoints, trusting.notes) == (None, ("Company-CA",), ())


def test_what_the_user_may_not_do_by_a_protocol_is_noted(table_device):
    """Its copy command is tried without an address; its lines are looked for among what the level was given."""
    lowered = "privilege exec level 7 configure\nprivilege configure level 7 ip ssh window-size\n"
    told = answers(
        show_file_systems=FILE_SYSTEMS.replace("tftp:", "http: scp:"),
        privilege="Current privilege level is 7\n",
        running=SAVED + lowered,
    ) | {"copy http: null:": "Command authorization failed.\n", "copy": "", "verify": ""}
    report = check_device(table_device(told), IMAGE, fetching=fetching("http", "scp"))
    assert report.refusal is None
    assert report.authorization.protocols_refused == ("'copy http:' (Command authorization failed.)",)
    assert report.authorization.lines_refused == ("ip ssh bulk-mode",)
    assert report.notes == (
        "the user may not use 'copy http:' (Command authorization failed.)",
        "no 'privilege configure' line gives level 7 'ip ssh bulk-mode': they may be refused",
    )


def test_a_train_without_install_add_is_told_before_the_copy(table_device):
    """A note with its own command, and no second time the image's size asked for; without --add nothing is said."""
    told = full_member("INSTALL") | {
        "show version": (CAPTURES / "show_version/c3850_install_mode_3.txt").read_text(),
        "dir flash:": listing(free=2000).replace("bootflash", "flash"),
    }
    adding = check_device(table_device(told), replace(IMAGE, adds=True))
    assert adding.refusal is None
    assert adding.notes[0].startswith("nothing will be added: release 03.06.05E has no 'install add'")
    assert adding.notes[0].endswith("software install file flash:image.bin switch 1-4")
    assert not any("nothing will be added" in note for note in check_device(table_device(told), IMAGE).notes)


@pytest.mark.parametrize("refused", ["running", "dir"])
def test_a_level_that_may_not_even_look_is_named(table_device, refused):
    """`#` at level 7 refuses what the check reads first: the sentence has the level, the hint the way out."""
    invalid = "      ^\n% Invalid input detected at '^' marker.\n"
    told = answers(privilege="Current privilege level is 7\n", **{refused: invalid})
    with pytest.raises(DeviceRefused, match=r"^r1: at privilege level 7: '") as caught:
        check_device(table_device(told), IMAGE)
    assert "enable secret" in str(caught.value.hint)
    with pytest.raises(DeviceRefused) as caught:
        check_device(table_device(answers(**{refused: invalid})), IMAGE)
    assert "privilege level" not in str(caught.value)
