"""Whether a device is ready: yes only where every condition is met, however each of them is broken."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from flashferry.devices.errors import DeviceRefused, OutputNotUnderstood
from flashferry.images.image import Image
from tasks.check import TargetImage
from tasks.readiness.check import check_readiness
from tasks.readiness.values import Asked, Met, Readiness, Verdict
from tests.unit.tasks.install_mode import BOOT_BLOCK, summary

NAME = "cat9k_iosxe.17.12.04.SPA.bin"
MD5, SHA512 = "a" * 32, "b" * 128
IMAGE = TargetImage(image=Image(name=NAME, size_bytes=1000, md5=MD5, sha512=SHA512), inside=NAME)
CARET = "      ^\n% Invalid input detected at '^' marker.\n"
LOG = "*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from console by console\n"
STAMP = "! Last configuration change at 10:00:00 UTC Fri Nov 20 2026 by bob\n"
LATER = STAMP.replace("10:00:00", "10:00:01")

VERSION = """Cisco IOS XE Software, Version 17.06.01
cisco C9300-24T (X86) processor with 1419044K/6147K bytes of memory.
System image file is "flash:packages.conf"

Switch Ports Model              SW Version        SW Image              Mode
------ ----- -----              ----------        ----------            ----
*    1 41    C9300-24T          17.06.01          CAT9K_IOSXE           INSTALL
     2 41    C9300-24T          17.06.01          CAT9K_IOSXE           INSTALL
     3 41    C9300-24T          17.06.01          CAT9K_IOSXE           INSTALL

Configuration register is 0x102

"""
SUMMARY = summary("IMG   I    17.12.04.0.5457", "IMG   C    17.06.01.0.250", members="1 2 3")
SWITCHES = """Switch/Stack Mac Address : 04bd.9715.5140 - Local Mac Address
Mac persistency wait time: Indefinite
                                             H/W   Current
Switch#   Role    Mac Address     Priority Version  State
-------------------------------------------------------------------------------------
*1       Active   04bd.9715.5140     15     V01     Ready
 2       Standby  04bd.977f.f400     14     V01     Ready
 3       Member   04bd.977f.f500     13     V01     Ready
"""
STATES = """       my state = 13 -ACTIVE
     peer state = 8  -STANDBY HOT
           Mode = Duplex
           Unit = Primary
"""
SYSTEMS = """File Systems:

       Size(b)       Free(b)      Type  Flags  Prefixes
*  11353194496    9329827840      disk     rw   flash: flash-1:
   11353194496    9329827840      disk     rw   flash-2: stby-flash:
   11353194496    9329827840      disk     rw   flash-3:
"""
ISSU = "--- Starting local lock acquisition on switch 1 ---\nFinished\n\nNo ISSU operation is in progress\n"
PACKAGES = "boot   rp 0 0   rp_boot cat9k-rpboot.17.06.01.SPA.pkg\n"


RUNNING_PACKAGE = "cat9k-rpboot.17.06.01.SPA.pkg"
ADDED_PACKAGE = "cat9k-rpboot.17.12.04.SPA.pkg"


def listing(
    *,
    size: int = 1000,
    name: str = NAME,
    conf: str = "packages.conf",
    free: int = 9_000_000_000,
    packages: tuple[str, ...] = (RUNNING_PACKAGE, ADDED_PACKAGE),
) -> str:
    rows = "".join(f"18  -rw-  94808711  Apr 22 2024 09:55:24 +02:00  {package}\n" for package in packages)
    return (
        "Directory of flash:/\n\n"
        f"16  -rw-             {size}  Apr 22 2024 09:55:24 +02:00  {name}\n"
        f"17  -rw-             7504  Apr 22 2024 09:55:24 +02:00  {conf}\n{rows}"
        f"\n11353194496 bytes total ({free} bytes free)\n"
    )


def digest(where: str, value: str = SHA512) -> str:
    return f"..........Done!\nverify /sha512 ({where}{NAME}) = {value}\n"


def stack(**changed: str) -> dict[str, str]:
    """Return the answers of a stack of three that is ready; keys with `_` for blanks replace them."""
    answers = {
        "show version": VERSION,
        "show install summary": SUMMARY,
        "show boot": "".join(BOOT_BLOCK.format(number) for number in (1, 2, 3)),
        "show switch": SWITCHES,
        "show redundancy states": STATES,
        "show issu state detail": ISSU,
        "more flash:packages.conf": PACKAGES,
        "show file systems": SYSTEMS,
        "dir flash:": listing(),
        "dir flash-2:": listing(),
        "dir flash-3:": listing(),
        "verify /sha512 flash:": digest("flash:"),
        "verify /sha512 flash-2:": digest("flash-2:"),
        "verify /sha512 flash-3:": digest("flash-3:"),
        "verify flash:": f"Digital signature successfully verified in file flash:/{NAME}\n\nSignature Verified\n",
        "show running-config": STAMP,
        "show startup-config": STAMP,
        "show privilege": "Current privilege level is 15\n",
    }
    return answers | changed


READY_ROUTER = {
    "show version": (
        "Cisco IOS XE Software, Version 16.09.03\n"
        "cisco ASR1006 (RP2) processor with 4208889K/6147K bytes of memory.\n"
        'System image file is "bootflash:asr1000rp2-adventerprisek9.16.09.03.SPA.bin"\n'
        "Configuration register is 0x2102\n"
    ),
    "show boot": (
        "BOOT variable = bootflash:/asr1000rp2-adventerprisek9.16.09.03.SPA.bin,12;\nCONFIG_FILE variable =\n"
        "BOOTLDR variable does not exist\nConfiguration register is 0x2102\n\n"
        "Standby BOOT variable = bootflash:/asr1000rp2-adventerprisek9.16.09.03.SPA.bin,12;\n"
        "Standby CONFIG_FILE variable =\nStandby BOOTLDR variable does not exist\n"
        "Standby Configuration register is 0x2102\n"
    ),
    "show switch": CARET,
    "show redundancy states": STATES,
    "show issu state detail": ISSU,
    "show file systems": SYSTEMS.replace("flash: flash-1:", "bootflash:").replace(
        "flash-2: stby-flash:", "stby-bootflash:"
    ),
    "dir bootflash:": listing(conf="asr1000rp2-adventerprisek9.16.09.03.SPA.bin"),
    "dir stby-bootflash:": listing(conf="asr1000rp2-adventerprisek9.16.09.03.SPA.bin"),
    "verify /sha512 bootflash:": digest("bootflash:"),
    "verify /sha512 stby-bootflash:": digest("stby-bootflash:"),
    "verify bootflash:": f"Digital signature successfully verified in file bootflash:/{NAME}\n",
    "show running-config": STAMP,
    "show startup-config": STAMP,
    "show privilege": "Current privilege level is 15\n",
}


@pytest.fixture
def look(table_device) -> Callable[..., Readiness]:
    """Look at a device that answers from a table."""
    return lambda answers, **given: check_readiness(table_device(answers), IMAGE, **given)


def test_a_stack_that_is_ready(look):
    """Each condition is met, with the command and the lines that it rests on."""
    found = look(stack())
    assert [(one.name.value, one.place, one.sentence) for one in found.blocking] == []
    assert (found.verdict, found.version, found.running, found.mode) == (Verdict.YES, "17.12.4", "17.06.01", "install")
    assert found.members == (1, 2, 3)
    assert {one.name for one in found.conditions} == set(Asked)
    assert all(one.command for one in found.conditions)
    assert all(one.lines for one in found.conditions if one.name not in {Asked.SAVED, Asked.OURS})
    assert {one.met for one in found.conditions} == {Met.MET}


def test_a_router_with_two_processors_in_bundle_mode_is_ready(look):
    """What is about packages does not apply; both processors hold the image and boot a file that is there."""
    found = look(READY_ROUTER)
    assert [(one.name.value, one.place, one.sentence) for one in found.blocking] == []
    assert (found.verdict, found.mode) == (Verdict.YES, "bundle")
    images = [(one.place, one.met) for one in found.conditions if one.name is Asked.IMAGE]
    assert images == [("bootflash:", Met.MET), ("stby-bootflash:", Met.MET)]


TUNED = STAMP + "alias exec flashferry-20261120-100000-ab12 ops@controller1\n"
APPLET = STAMP + "event manager applet FLASHFERRY-3F2A authorization bypass\n event timer countdown time 5400\n"
OTHER_ROW = SUMMARY.replace("IMG   I    17.12.04.0.5457", "IMG   I    17.09.04.0.1")
STANDALONE = SUMMARY.replace("Switch 1 2 3", "Switch 1 2")
TIMER = "Auto abort timer: active , time before rollback - 01:57:12"
DISABLED = STATES.replace("8  -STANDBY HOT", "1  -DISABLED")
DIFFERING = "!Contextual Config Diffs:\n+ntp server 10.1.1.10\n"
BOOTS = stack()["show boot"]

FAULTS: dict[str, tuple[dict[str, str], Asked, Met]] = {
    "file missing": ({"dir flash:": listing(name="old.bin")}, Asked.IMAGE, Met.NOT_MET),
    "file truncated": ({"dir flash:": listing(size=999)}, Asked.IMAGE, Met.NOT_MET),
    "file truncated on a member": ({"dir flash-3:": listing(size=999)}, Asked.IMAGE, Met.NOT_MET),
    "name in capitals": ({"dir flash:": listing(name=NAME.upper())}, Asked.IMAGE, Met.NOT_MET),
    "wrong hash": ({"verify /sha512 flash:": digest("flash:", "c" * 128)}, Asked.IMAGE, Met.NOT_MET),
    "wrong hash on one member": ({"verify /sha512 flash-2:": digest("flash-2:", "c" * 128)}, Asked.IMAGE, Met.NOT_MET),
    "hash of another file": ({"verify /sha512 flash-2:": digest("flash-3:")}, Asked.IMAGE, Met.UNKNOWN),
    "no hash": ({"verify": CARET}, Asked.IMAGE, Met.UNKNOWN),
    "hash empty": ({"verify /sha512 flash:": "\n"}, Asked.IMAGE, Met.UNKNOWN),
    "list empty": ({"dir flash:": ""}, Asked.IMAGE, Met.UNKNOWN),
    "list cut": ({"dir flash:": listing(name="x").split("\n11")[0]}, Asked.IMAGE, Met.UNKNOWN),
    "list refused": ({"dir flash-2:": CARET}, Asked.IMAGE, Met.UNKNOWN),
    "member without file system": ({"show file systems": SYSTEMS.replace("flash-3:", "x:")}, Asked.IMAGE, Met.UNKNOWN),
    "signature bad": (
        {"verify flash:": f"%ERROR: Signature mismatch in flash:/{NAME}.\n"},
        Asked.SIGNATURE,
        Met.NOT_MET,
    ),
    "signature silent": ({"verify flash:": "\n"}, Asked.SIGNATURE, Met.UNKNOWN),
    "not added": ({"show install summary": re.sub("IMG   I.*\n", "", SUMMARY)}, Asked.INSTALLED, Met.NOT_MET),
    "other version added": ({"show install summary": OTHER_ROW}, Asked.INSTALLED, Met.NOT_MET),
    "another besides": (
        {"show install summary": SUMMARY.replace("IMG   C", "IMG   I    17.09.04.0.1\nIMG   C")},
        Asked.INSTALLED,
        Met.NOT_MET,
    ),
    "added twice": (
        {"show install summary": SUMMARY.replace("IMG   C", "IMG   I    17.12.04.0.9\nIMG   C")},
        Asked.INSTALLED,
        Met.NOT_MET,
    ),
    "two committed": (
        {"show install summary": SUMMARY.replace("IMG   C", "IMG   C    17.09.04.0.1\nIMG   C")},
        Asked.INSTALLED,
        Met.NOT_MET,
    ),
    "none committed": ({"show install summary": re.sub("IMG   C.*\n", "", SUMMARY)}, Asked.INSTALLED, Met.NOT_MET),
    "uncommitted": ({"show install summary": SUMMARY.replace("IMG   I", "IMG   U")}, Asked.INSTALLED, Met.NOT_MET),
    "patch uncommitted": (
        {"show install summary": SUMMARY.replace("IMG   C", "SMU   U    flash:x.smu.bin\nIMG   C")},
        Asked.INSTALLED,
        Met.NOT_MET,
    ),
    "patch added beside it": (
        {"show install summary": SUMMARY.replace("IMG   C", "SMU   I    flash:x.smu.bin\nIMG   C")},
        Asked.INSTALLED,
        Met.NOT_MET,
    ),
    "a member not told": ({"show install summary": STANDALONE}, Asked.INSTALLED, Met.UNKNOWN),
    "a member without it": (
        {
            "show install summary": STANDALONE.split("\n----")[0]
            + SUMMARY[SUMMARY.index("\n-----") : SUMMARY.index("\n\n---")]
            + "\n\n"
            + re.sub("IMG   I.*\n", "", SUMMARY).replace("Switch 1 2 3", "Switch 3")
        },
        Asked.INSTALLED,
        Met.NOT_MET,
    ),
    "summary refused": ({"show install summary": CARET}, Asked.INSTALLED, Met.UNKNOWN),
    "summary empty": ({"show install summary": "\n"}, Asked.INSTALLED, Met.UNKNOWN),
    "summary cut": ({"show install summary": SUMMARY[:-250]}, Asked.INSTALLED, Met.UNKNOWN),
    "summary not authorised": ({"show install summary": "Command authorization failed.\n"}, Asked.TIMER, Met.UNKNOWN),
    "timer runs": (
        {"show install summary": SUMMARY.replace("Auto abort timer: inactive", TIMER)},
        Asked.TIMER,
        Met.NOT_MET,
    ),
    "timer runs, other spelling": (
        {
            "show install summary": SUMMARY.replace(
                "timer: inactive", "timer: active on install_activate, time before rollback - 01:49:42"
            )
        },
        Asked.TIMER,
        Met.NOT_MET,
    ),
    "timer strange": ({"show install summary": SUMMARY.replace("timer: ina", "timer: A")}, Asked.TIMER, Met.UNKNOWN),
    "no room": ({"dir flash:": listing(free=1000)}, Asked.SPACE, Met.NOT_MET),
    "no room on a member": ({"dir flash-2:": listing(free=1000)}, Asked.SPACE, Met.NOT_MET),
    **{
        f"member {state}": (
            {"show switch": SWITCHES.replace("13     V01     Ready", f"13     V01     {state}")},
            Asked.MEMBERS,
            Met.NOT_MET,
        )
        for state in ("Removed", "V-Mismatch", "Initializing", "HA sync in progress", "Provisioned", "Not Ready")
    },
    "member gone": ({"show switch": SWITCHES[: SWITCHES.index(" 3 ")]}, Asked.MEMBERS, Met.NOT_MET),
    "members refused": ({"show switch": CARET}, Asked.MEMBERS, Met.UNKNOWN),
    "members empty": ({"show switch": "\n"}, Asked.MEMBERS, Met.UNKNOWN),
    "members cut in a row": ({"show switch": SWITCHES[:-20]}, Asked.MEMBERS, Met.UNKNOWN),
    "peer cold": ({"show redundancy states": STATES.replace("HOT", "COLD")}, Asked.PEER, Met.NOT_MET),
    "peer away": ({"show redundancy states": DISABLED}, Asked.PEER, Met.NOT_MET),
    "peer away, simplex": (
        {"show redundancy states": DISABLED.replace("Duplex", "Simplex")},
        Asked.PEER,
        Met.NOT_MET,
    ),
    "at the standby": ({"show redundancy states": STATES.replace("-ACTIVE", "-STANDBY")}, Asked.PEER, Met.NOT_MET),
    "peer refused": ({"show redundancy states": CARET}, Asked.PEER, Met.UNKNOWN),
    "peer empty": ({"show redundancy states": "\n"}, Asked.PEER, Met.UNKNOWN),
    "peer cut": ({"show redundancy states": STATES[: STATES.index("Mode")]}, Asked.PEER, Met.UNKNOWN),
    "boot file missing": ({"dir flash:": listing(conf="packages.conf.00-")}, Asked.BOOT, Met.NOT_MET),
    "boot file missing on a member": ({"dir flash-3:": listing(conf="packages.conf.00-")}, Asked.BOOT, Met.NOT_MET),
    "boot variable names a file that is gone": (
        {
            "show boot": BOOTS.replace(
                "reload:\nBOOT variable = flash:packages.conf", "reload:\nBOOT variable = flash:x.bin"
            )
        },
        Asked.BOOT,
        Met.NOT_MET,
    ),
    "boot variable names another file": (
        {
            "show boot": BOOTS.replace(
                "reload:\nBOOT variable = flash:packages.conf", f"reload:\nBOOT variable = flash:{NAME}"
            )
        },
        Asked.BOOT,
        Met.NOT_MET,
    ),
    "boot variable empty": (
        {"show boot": BOOTS.replace("reload:\nBOOT variable = flash:packages.conf;", "reload:\nBOOT variable =")},
        Asked.BOOT,
        Met.NOT_MET,
    ),
    "boot tells of one member": ({"show boot": BOOT_BLOCK.format(1)}, Asked.BOOT, Met.UNKNOWN),
    **{
        f"{what} missing on {where}": ({f"dir {where}": listing(packages=packages)}, asked, Met.NOT_MET)
        for where in ("flash:", "flash-2:", "flash-3:")
        for what, packages, asked in (
            ("package that runs", (ADDED_PACKAGE,), Asked.BOOT),
            ("package that was added", (RUNNING_PACKAGE,), Asked.INSTALLED),
        )
    },
    "package list refused": ({"more flash:": "Command authorization failed.\n"}, Asked.BOOT, Met.UNKNOWN),
    "startup replaced under the same stamp": (
        {"show running-config": f"{STAMP}hostname a\n", "show startup-config": f"{STAMP}hostname b\n"},
        Asked.SAVED,
        Met.UNKNOWN,
    ),
    "startup replaced, and the device compares": (
        {
            "show running-config": f"{STAMP}hostname a\n",
            "show startup-config": f"{STAMP}hostname b\n",
            "show archive config differences": DIFFERING,
        },
        Asked.SAVED,
        Met.NOT_MET,
    ),
    "boot refused": ({"show boot": CARET}, Asked.BOOT, Met.UNKNOWN),
    "boot empty": ({"show boot": "\n"}, Asked.BOOT, Met.UNKNOWN),
    "boot cut above next reload": (
        {"show boot": BOOTS[: BOOTS.rindex("Boot Variables on")]},
        Asked.BOOT,
        Met.UNKNOWN,
    ),
    "boot cut above manual": ({"show boot": BOOTS[: BOOTS.rindex("Manual")]}, Asked.MANUAL, Met.UNKNOWN),
    "manual boot on a member": (
        {"show boot": BOOTS[::-1].replace("on = tooB launaM", "sey = tooB launaM", 1)[::-1]},
        Asked.MANUAL,
        Met.NOT_MET,
    ),
    **{
        f"register {register}": (
            {"show version": VERSION.replace("0x102", register)},
            Asked.REGISTER,
            Met.NOT_MET,
        )
        for register in ("0x2142", "0x2100", "0x2101", "0x142", "0x0")
    },
    "register after reload": (
        {"show version": VERSION.replace("is 0x102", "is 0x102 (will be 0x2142 at next reload)")},
        Asked.REGISTER,
        Met.NOT_MET,
    ),
    "register not told": ({"show version": VERSION.replace("Configuration", "Con")}, Asked.REGISTER, Met.UNKNOWN),
    "unsaved": (
        {"show running-config": LATER, "show archive config differences": DIFFERING},
        Asked.SAVED,
        Met.NOT_MET,
    ),
    "unsaved by its stamps": ({"show running-config": LATER}, Asked.SAVED, Met.NOT_MET),
    "saved by nothing": (
        {"show running-config": "hostname a\n", "show startup-config": "hostname b\n"},
        Asked.SAVED,
        Met.UNKNOWN,
    ),
    "no startup": ({"show startup-config": ""}, Asked.SAVED, Met.NOT_MET),
    "upgrade in service": (
        {"show issu state detail": "Slot being modified: R1\n  Last operation: acceptversion\n"},
        Asked.ISSU,
        Met.NOT_MET,
    ),
    "upgrade unreadable": ({"show issu state detail": ISSU[:60]}, Asked.ISSU, Met.UNKNOWN),
    "upgrade not authorised": ({"show issu": "Command authorization failed.\n"}, Asked.ISSU, Met.UNKNOWN),
    "our mark": ({"show running-config": TUNED, "show startup-config": STAMP}, Asked.OURS, Met.NOT_MET),
    "our mark was saved": ({"show startup-config": TUNED}, Asked.OURS, Met.NOT_MET),
    "our applet": ({"show running-config": APPLET}, Asked.OURS, Met.NOT_MET),
    "our applet was saved": ({"show startup-config": APPLET}, Asked.OURS, Met.NOT_MET),
    "runs from elsewhere": (
        {"show version": VERSION.replace("flash:packages.conf", "flash:other/packages.conf")},
        Asked.BOOT,
        Met.NOT_MET,
    ),
    "members of two releases": (
        {"show version": VERSION[::-1].replace("10.60.71", "50.30.71", 1)[::-1]},
        Asked.MEMBERS,
        Met.NOT_MET,
    ),
    "members committed to two releases": (
        {
            "show install summary": STANDALONE.rpartition("\n----")[0].rpartition("\n----")[0]
            + "\n"
            + SUMMARY.replace("Switch 1 2 3", "Switch 3").replace("17.06.01.0.250", "17.03.05.0.1")
        },
        Asked.INSTALLED,
        Met.NOT_MET,
    ),
    "members in two modes": (
        {"show version": VERSION.replace("INSTALL", "BUNDLE", 1)},
        Asked.INSTALLED,
        Met.UNKNOWN,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_never_a_yes(look, name):
    """The condition that was broken says so, and the answer is no, or unknown where nothing is known to be wrong."""
    changed, asked, met = FAULTS[name]
    found = look({**changed, **{key: text for key, text in stack().items() if key not in changed}})
    assert met in {one.met for one in found.conditions if one.name is asked}, found.blocking
    assert found.verdict in {Verdict.NO, Verdict.UNKNOWN}
    assert found.verdict is Verdict.NO or met is not Met.NOT_MET


ROUTER_FAULTS: dict[str, tuple[dict[str, str], Asked, Met]] = {
    "standby without the image": (
        {"dir stby-bootflash:": listing(name="x", conf="asr1000rp2-adventerprisek9.16.09.03.SPA.bin")},
        Asked.IMAGE,
        Met.NOT_MET,
    ),
    "standby boots nothing": ({"dir stby-bootflash:": listing()}, Asked.BOOT, Met.NOT_MET),
    "standby's register": (
        {
            "show boot": READY_ROUTER["show boot"].replace(
                "Standby Configuration register is 0x2102", "Standby Configuration register is 0x2100"
            )
        },
        Asked.REGISTER,
        Met.NOT_MET,
    ),
    "standby not told": (
        {"show boot": READY_ROUTER["show boot"].split("Standby")[0] + "Standby not ready to show bootvar\n"},
        Asked.BOOT,
        Met.UNKNOWN,
    ),
    "boot cut above the register": (
        {"show boot": READY_ROUTER["show boot"][: READY_ROUTER["show boot"].index("Configuration")]},
        Asked.MANUAL,
        Met.UNKNOWN,
    ),
    "no boot variable": (
        {"show boot": "BOOT variable does not exist\nConfiguration register is 0x2102\n"},
        Asked.BOOT,
        Met.NOT_MET,
    ),
    "booted over the network": (
        {"show version": READY_ROUTER["show version"].replace('"bootflash:asr', '"tftp://192.0.2.1/asr')},
        Asked.BOOT,
        Met.NOT_MET,
    ),
}


@pytest.mark.parametrize("name", ROUTER_FAULTS)
def test_a_planted_fault_of_a_router_is_never_a_yes(look, name):
    """Two processors each have an image, a variable and a register of their own."""
    changed, asked, met = ROUTER_FAULTS[name]
    found = look(READY_ROUTER | changed)
    assert met in {one.met for one in found.conditions if one.name is asked}, found.blocking
    assert found.verdict in {Verdict.NO, Verdict.UNKNOWN}


@pytest.mark.parametrize("command", [key for key in stack() if key.startswith(("show", "dir"))])
def test_log_lines_in_an_answer_change_nothing(look, command):
    """Wherever a line of the log falls into an answer, the device is as ready as it was, or what was cut is unknown."""
    for at in range(stack()[command].count("\n") + 1):
        lines = stack()[command].splitlines(keepends=True)
        found = look(stack() | {command: "".join((*lines[:at], LOG, *lines[at:]))})
        assert found.verdict is Verdict.YES


def test_load_and_time_in_front_of_each_answer_change_nothing(look):
    """As `terminal exec prompt timestamp` has them printed."""
    header = "Load for five secs: 4%/0%; one minute: 5%; five minutes: 5%\nTime source is NTP, 10:00:00.123 UTC\n\n"
    found = look({command: header + text for command, text in stack().items()})
    assert [one.sentence for one in found.blocking] == []
    assert found.verdict is Verdict.YES


@pytest.mark.parametrize(
    "command", [key for key in stack() if key not in {"show privilege", "more flash:packages.conf"}]
)
@pytest.mark.parametrize("answer", ["", "%Error: something strange\n", CARET])
def test_no_answer_at_all_is_never_a_yes(table_device, command, answer):
    """Silence, a strange word and a caret alike; an upgrade in service of which nothing is said does not apply."""
    device = table_device({command: answer, **{key: text for key, text in stack().items() if key != command}})
    try:
        verdict = check_readiness(device, IMAGE).verdict
    except (DeviceRefused, OutputNotUnderstood):
        return
    applies = command not in {"show issu state detail", "verify flash:"} or answer.startswith("%Error")
    assert verdict in ({Verdict.NO, Verdict.UNKNOWN} if applies else {Verdict.YES, Verdict.UNKNOWN})


def test_a_caret_for_a_lesser_user_is_no_word_about_the_device(look):
    """He may not ask about upgrades in service; for all that is known one is going on."""
    found = look(
        {"show issu": CARET, "show privilege": "Current privilege level is 7\n"}
        | {key: text for key, text in stack().items() if key not in {"show issu state detail", "show privilege"}}
    )
    assert (found.verdict, [one.name for one in found.blocking]) == (Verdict.UNKNOWN, [Asked.ISSU])


def test_a_member_named_by_the_summary_needs_no_file_of_its_own(look):
    """`install add` handed it the packages; a file of its own that is wrong counts all the same."""
    found = look(stack() | {"dir flash-2:": listing(name="x"), "dir flash-3:": listing(name="y")})
    assert found.verdict is Verdict.YES
    met = [one.met for one in found.conditions if one.name is Asked.IMAGE]
    assert met == [Met.MET, Met.DOES_NOT_APPLY, Met.DOES_NOT_APPLY]


def test_an_image_without_a_signature_is_the_published_one_by_its_hash(look):
    """There is nothing to vouch for; and nobody is asked about a file that is not proven."""
    words = f"%ERROR: Not able to process Signature in flash:/{NAME}.\n"
    assert look(stack() | {"verify flash:": words}).verdict is Verdict.YES
    assert look(stack(), signature=False).verdict is Verdict.YES


def test_what_the_run_has_proven_is_not_hashed_again(table_device):
    """Its own file and those of its members, each by its own path, and only by the hash that is expected."""
    device = table_device(stack())
    proven = {f"flash:{NAME}": SHA512, f"flash-2:{NAME}": MD5}
    assert check_readiness(device, IMAGE, proven=proven, signature=False).verdict is Verdict.YES
    assert [one for one in device.asked if one.startswith("verify")] == [f"verify /sha512 flash-3:{NAME}"]
    other = table_device(stack())
    check_readiness(other, IMAGE, proven={f"flash:{NAME}": "c" * 128}, signature=False)
    assert f"verify /sha512 flash:{NAME}" in other.asked


ADDED_ON_BOTH = READY_ROUTER | {
    name: READY_ROUTER[name]
    .replace("asr1000rp2-adventerprisek9.16.09.03.SPA.bin", "packages.conf")
    .replace(RUNNING_PACKAGE, RUNNING_PACKAGE.replace("17.06.01", "16.09.03"))
    for name in ("show version", "show boot", "dir bootflash:", "dir stby-bootflash:")
}
ADDED_ON_BOTH["more bootflash:packages.conf"] = PACKAGES.replace("17.06.01", "16.09.03")
ADDED_ON_BOTH["show install summary"] = SUMMARY.replace("Switch 1 2 3", "R0 R1")


def test_supervisors_named_by_the_summary_need_no_file_and_no_more_room(look):
    """Where `install add` handed the standby its packages, as members."""
    full = ADDED_ON_BOTH | {"dir stby-bootflash:": listing(name="x", free=20_000_000).replace("17.06.01", "16.09.03")}
    assert [one.sentence for one in look(full).blocking] == []
    assert look(full).verdict is Verdict.YES


def test_a_standby_of_which_the_summary_says_nothing_is_unknown(look):
    """Its file is there, what is added on it nobody knows; one of a chassis is told in other words."""
    for place in ("R0", "Chassis 1/R0"):
        found = look(ADDED_ON_BOTH | {"show install summary": SUMMARY.replace("Switch 1 2 3", place)})
        assert (found.verdict, [one.name for one in found.blocking]) == (Verdict.UNKNOWN, [Asked.INSTALLED])


def sized(package: str, size: int) -> str:
    """Return a listing in which a file has another size."""
    row = next(line for line in listing().splitlines() if line.endswith(package))
    return listing().replace(row, f"18  -rw-  {size}  Apr 22 2024 09:55:24 +02:00  {package}")


OTHER_PACKAGES = PACKAGES.replace("17.06.01", "17.09.04")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"more flash:packages.conf": PACKAGES.replace("17.06.01", "17.12.04")}, "but 17.6.1 is what it runs"),
        (
            {"more flash:packages.conf": OTHER_PACKAGES}
            | {
                f"dir {place}": listing(packages=(RUNNING_PACKAGE, ADDED_PACKAGE, "cat9k-rpboot.17.09.04.SPA.pkg"))
                for place in ("flash:", "flash-2:", "flash-3:")
            },
            "but 17.6.1 is what it runs",
        ),
        ({"dir flash-3:": sized(ADDED_PACKAGE, 104_808)}, "is not the same everywhere"),
        ({"dir flash-2:": sized(ADDED_PACKAGE, 0)}, "has no package of 17.12.4"),
        (
            {f"dir {place}": sized(ADDED_PACKAGE, 0) for place in ("flash:", "flash-2:", "flash-3:")},
            "has no package of 17.12.4",
        ),
        ({"dir flash:": sized(RUNNING_PACKAGE, 0)}, "or empty"),
        ({"dir flash-2:": sized(RUNNING_PACKAGE, 4096)}, "4096 bytes on flash-2:, 94808711 on flash:"),
        ({"dir flash-2:": sized("packages.conf", 0)}, "or empty"),
        (
            {"dir flash-2:": sized(ADDED_PACKAGE, 7).replace("18  -rw-  7 ", "18  drwx  7 ")},
            "has no package of 17.12.4",
        ),
    ],
    ids=["booted next", "a third release", "short on one", "empty on one", "empty on all", "empty of the running one",
         "short of the running one", "empty list", "a folder"],
)  # fmt: skip
def test_a_name_on_flash_is_no_package(look, changed, words):
    """Files that are booted have contents, the same on all members, and are those of the release that runs."""
    found = look(stack() | changed)
    assert found.verdict is Verdict.NO
    assert any(words in one.sentence for one in found.blocking)


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ({"false_copy": "the device's word, which was false in run RUN1"}, Asked.IMAGE),
        ({"failed_add": "'install add' of it failed in run RUN1"}, Asked.INSTALLED),
    ],
)
def test_what_a_run_saw_outweighs_the_device_s_own_word(look, known, name):
    """Hash and table are as they should be, and an earlier run saw them false: nobody knows, and the run is named."""
    found = look(stack(), **known)
    assert {one.name for one in found.blocking} == {name}
    assert "RUN1" in found.blocking[0].sentence
    assert found.verdict is Verdict.UNKNOWN
    assert look(stack() | RUNNING, **known).verdict is Verdict.RUNS_IT


RUNNING = {
    "show version": VERSION.replace("17.06.01", "17.12.04"),
    "show install summary": SUMMARY.replace("17.06.01.0.250", "17.12.04.0.5457").replace(
        "IMG   I    17.12.04.0.5457\n", ""
    ),
}


def test_a_device_that_runs_the_image_says_so(look):
    """Then nothing is in the way of anything, be the file there or not."""
    found = look(stack() | RUNNING | {"dir flash:": listing(name="x")})
    assert (found.verdict, found.is_good) == (Verdict.RUNS_IT, True)
    assert look(stack() | RUNNING | {"show running-config": APPLET}).verdict is Verdict.NO
    assert look(stack() | RUNNING, owed="run X has it").verdict is Verdict.NO


@pytest.mark.parametrize(
    "changed",
    [
        {"show install summary": RUNNING["show install summary"].replace("IMG   C", "IMG   U")},
        {"show install summary": RUNNING["show install summary"].replace("timer: inactive", TIMER[12:])},
        {"show install summary": CARET},
        {"show version": VERSION},
    ],
)
def test_what_is_not_committed_is_not_run_for_good(look, changed):
    """A timer may still bring the old image back."""
    found = look(stack() | RUNNING | {"dir flash:": listing(name="x")} | changed)
    assert found.verdict in {Verdict.NO, Verdict.UNKNOWN}


def test_a_router_that_runs_the_very_file(look):
    """In bundle mode the running file must be the image by its hash."""
    answers = READY_ROUTER | {
        "show version": READY_ROUTER["show version"].replace("asr1000rp2-adventerprisek9.16.09.03.SPA.bin", NAME)
    }
    answers["show version"] = answers["show version"].replace("16.09.03", "17.12.04")
    assert look(answers).verdict is Verdict.RUNS_IT
    wrong = answers | {"verify /sha512 bootflash:": digest("bootflash:", "c" * 128)}
    assert look(wrong).verdict is Verdict.NO


OLD_THIRD = RUNNING["show version"].replace(
    "     3 41    C9300-24T          17.12.04", "     3 41    C9300-24T          17.06.01"
)
MISMATCH = SWITCHES.replace("13     V01     Ready", "13     V01     V-Mismatch")
OF_TWO = RUNNING["show install summary"].replace("Switch 1 2 3", "Switch 1 2")


@pytest.mark.parametrize(
    "changed",
    [
        {"show install summary": OF_TWO},
        {"show install summary": OF_TWO, "show switch": MISMATCH},
        {"show version": OLD_THIRD},
        {"show version": OLD_THIRD, "show install summary": OF_TWO, "show switch": MISMATCH},
    ],
)
def test_a_stack_runs_the_image_once_all_its_members_do(look, changed):
    """A member that runs another release, or of which nothing is told, is not covered by the others."""
    assert look(stack() | RUNNING | changed).verdict in {Verdict.NO, Verdict.UNKNOWN}


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("cat9k_iosxe.17.12.04.CSCvz00001.SPA.smu.bin", VERSION),
        ("cat9k_iosxe_npe.17.12.04.SPA.bin", VERSION),
        ("cat9k_iosxe.17.12.04.SPA.bin", VERSION + "IOS Software (CAT9K_IOSXE_NPE), Version 17.12.4, RELEASE\n"),
    ],
)
def test_a_patch_or_another_feature_set_of_the_running_release_is_not_run(table_device, name, version):
    """Their names carry the number of what runs; the device does not run them."""
    answers = {key: text.replace(NAME, name) for key, text in (stack() | RUNNING).items()}
    answers["show version"] = version.replace("17.06.01", "17.12.04")
    wanted = TargetImage(image=Image(name=name, size_bytes=1000, md5=MD5, sha512=SHA512))
    assert check_readiness(table_device(answers), wanted).verdict in {Verdict.NO, Verdict.UNKNOWN}


def test_a_file_put_in_the_place_of_the_running_one_is_not_run(look):
    """It has the name of what was booted, and the image's hash; what runs is an older release."""
    was = READY_ROUTER["show version"].replace("asr1000rp2-adventerprisek9.16.09.03.SPA.bin", NAME)
    assert look(READY_ROUTER | {"show version": was}).verdict is Verdict.NO


def test_virtual_routers_need_no_boot_variable(look):
    """A C8000V that runs packages.conf comes up as it is; what an IOSv boots nothing tells."""
    version = (
        "Cisco IOS XE Software, Version 17.06.01\n"
        "cisco C8000V (VXE) processor (revision VXE) with 2074799K/3075K bytes of memory.\n"
        'System image file is "bootflash:packages.conf"\n'
        "Configuration register is 0x2102\n"
    )
    alone = DISABLED.replace("Duplex", "Simplex")
    answers = READY_ROUTER | {
        "show version": version,
        "show boot": "BOOT variable does not exist\nConfiguration register is 0x2102\n\nStandby not ready\n",
        "show redundancy states": alone,
        "show install summary": SUMMARY.replace("Switch 1 2 3", "R0"),
        "more bootflash:packages.conf": PACKAGES,
        "dir bootflash:": listing(),
        "dir stby-bootflash:": listing(),
    }
    found = look(answers)
    assert (found.verdict, [one.sentence for one in found.blocking]) == (Verdict.YES, [])
    for left in (listing(conf="packages.conf.bak"), listing(packages=(ADDED_PACKAGE,))):
        found = look(answers | {"dir bootflash:": left})
        assert (found.verdict, {one.name for one in found.blocking}) == (Verdict.NO, {Asked.BOOT})
    iosv = version.replace("C8000V", "IOSv").replace("packages.conf", "vios.bin")
    found = look(answers | {"show version": iosv})
    assert (found.verdict, {one.name for one in found.blocking}) == (Verdict.UNKNOWN, {Asked.BOOT, Asked.REGISTER})


def test_members_that_came_and_went_since_the_staging(look):
    """Whoever staged the image knows which there were."""
    assert look(stack(), expected_members=(1, 2, 3)).verdict is Verdict.YES
    gone, new = look(stack(), expected_members=(1, 2, 3, 4)), look(stack(), expected_members=(1, 2))
    assert [one.sentence for one in (*gone.blocking, *new.blocking)] == [
        "member 4 is gone",
        "member 3 is new since the image was staged",
    ]


def test_a_device_in_the_hands_of_a_run_is_not_ready(look):
    """What the journal owes it counts, whatever the device says."""
    found = look(stack(), owed="run X holds it")
    assert [one.sentence for one in found.blocking] == ["run X holds it"]


def test_an_unprivileged_session_is_refused(table_device):
    """Most of what is asked would be refused by the device, one by one."""
    device = table_device(stack())
    device.privileged = False
    with pytest.raises(DeviceRefused, match="privileged prompt"):
        check_readiness(device, IMAGE)
