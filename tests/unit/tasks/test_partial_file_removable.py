"""Which files could go: an old image that nothing names, and nothing wherever anything is in doubt."""

from __future__ import annotations

import pytest

from flashferry.devices.errors import DeviceUnreachable, OutputNotUnderstood
from flashferry.devices.platforms.ios import IOS_XE
from tasks.partial_file import could_go, removable, removable_in_words
from tasks.software_state import Answer, Outcome, Topic, software_state
from tests.unit.tasks.install_mode import BOOT_BLOCK, summary

WANTED = "cat9k_iosxe.17.12.04.SPA.bin"
OLD = "cat9k_iosxe.17.03.05.SPA.bin"
OLDER = "cat9k_iosxe.16.12.04.SPA.bin"
VERSION = """Cisco IOS XE Software, Version 17.06.01
System image file is "flash:packages.conf"
Switch Ports Model              SW Version        SW Image              Mode
------ ----- -----              ----------        ----------            ----
*    1 41    C9300-24UX         17.06.01          CAT9K_IOSXE           INSTALL
"""
INSTALL = summary("IMG   C    17.06.01.0.250")
BOOT = BOOT_BLOCK.format(1)
PACKAGES = "boot   rp 0 0   rp_boot cat9k-rpboot.17.06.01.SPA.pkg\n"
LISTING = f"""Directory of flash:/

   11  -rw-          6500  Nov 24 2026 08:00:00 +00:00  packages.conf
   12  -rw-     473808711  Nov 24 2024 08:00:00 +00:00  {OLD}
   13  -rw-     573808711  Nov 24 2023 08:00:00 +00:00  {OLDER}
   14  -rw-       4808711  Nov 24 2024 08:00:00 +00:00  cat9k_iosxe.17.03.05.CSCxx00001.SPA.smu.bin
   15  -rw-      94808711  Nov 24 2024 08:00:00 +00:00  cat9k-rpboot.17.03.05.SPA.pkg
   16  -rw-     673808711  Nov 24 2026 08:00:00 +00:00  cat9k_iosxe.17.09.05.SPA.bin
   17  -rw-          2072  Nov 24 2026 08:00:00 +00:00  vlan.dat
   18  -rw-     573808711  Nov 24 2022 08:00:00 +00:00  somebody.bin
   19  drwx          4096  Nov 24 2022 08:00:00 +00:00  cat9k_iosxe.16.06.01.SPA.bin

11353194496 bytes total (104857600 bytes free)
"""
TEXTS = {Topic.VERSION: VERSION, Topic.INSTALL: INSTALL, Topic.BOOT: BOOT, Topic.PACKAGES: PACKAGES}


def found(listing=LISTING, *, lines=(), outcomes=None, file_system="flash:", **texts):
    """Return what could go of a device whose answers are the usual ones but for some."""
    told = TEXTS | {Topic[name.upper()]: text for name, text in texts.items()}
    answers = {}
    for topic in Topic:
        text = told.get(topic)
        outcome = Outcome.NOT_THERE if text is None else Outcome.READ
        answers[topic] = Answer(command=topic.value, outcome=(outcomes or {}).get(topic, outcome), text=text or "")
    return removable(
        software_state(answers),
        listing,
        file_system=file_system,
        names=IOS_XE.file_systems,
        lines=lines,
        kept=(WANTED,),
    )


def test_old_images_that_nothing_names_could_go():
    """The largest first; no patch, package, folder, later image, or file that tells no release is among them."""
    result = found()
    assert ([row.name for row in result.files], result.reason) == ([OLDER, OLD], "")
    assert f"2 images older than what runs, which nothing there boots or names: flash:{OLDER} (573,808,711 bytes)" in (
        removable_in_words(result, "flash:")
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"boot": BOOT.replace("flash:packages.conf;\nManual", f"flash:packages.conf;flash:/{OLD};\nManual")},
        {"boot": BOOT.replace("flash:packages.conf;\n\n", f"flash:{OLD.upper()};\n\n")},
        {"lines": (f"boot system switch all flash:{OLD}",)},
        {"lines": (f"boot system flash {OLD}",)},
        {"lines": (f"tftp-server flash:{OLD}",)},
        {"lines": ("event manager applet X", f' action 010 cli command "copy flash:{OLD} usb0:"')},
        {"lines": ("kron policy-list a", " cli copy flash:cat9k_iosxe.17.03* usb0:")},
        {"lines": (f"boot config flash:{OLD}",)},
        {"lines": ("event manager applet X", ' event syslog pattern "' + OLD.replace(".", r"\.") + '"')},
        {"lines": ("kron policy-list a", " cli copy flash:[^d]at9k_iosxe.17.03* usb0:")},
        {"packages": PACKAGES + f"boot   rp 0 0   rp_x {OLD}\n"},
        {"install": INSTALL.replace("IMG   C    17", "IMG   I    17.03.05.0.6600\nIMG   C    17")},
        {"listing": LISTING.replace(OLD, WANTED)},
        {"listing": LISTING.replace(OLD, "cat9k_iosxe.17.06.01.SPA.bin")},
    ],
    ids=["next", "now", "line", "short line", "served", "applet", "pattern", "config", "escaped", "excluded",
         "packages.conf", "added", "the wanted one", "runs"],
)  # fmt: skip
def test_what_anything_names_stays(changed):
    """In whatever letters, with or without a slash: the other old image is still named."""
    listing = changed.pop("listing", LISTING)
    assert [row.name for row in found(listing, **changed).files] == [OLDER]


@pytest.mark.parametrize(
    "patch",
    [
        "C9800-universalk9_wlc.17.03.04.CSCvx00000.SPA.smu.bin",
        "C9800-universalk9_wlc.17.03.04.CSCvx00000.SPA.apsp.bin",
        "C9800-universalk9_wlc.17.03.04.CSCvx00000.SPA.apdp.bin",
        "cat9k_iosxe.17.03.04.CSCvx00000.SPA.bin",
        "C9800-SW-iosxe-wlc.17.03.04.SPA.bin",
        "cat9k-rommon.17.03.04.SPA.bin",
    ],
)
def test_a_patch_or_a_part_of_an_image_is_never_named(patch):
    """Whether of the system, of the access points, or the wireless package beside the image."""
    assert [row.name for row in found(LISTING.replace(OLD, patch)).files] == [OLDER]


@pytest.mark.parametrize(
    "name",
    [
        "C9800-SW-iosxe-wlc.16.12.05.SPA.bin",
        "C9800-universalk9_wlc.17.03.04.CSCvx00000.SPA.apsp.v2.bin",
        "c9800-80_fpga_prog.16.00.01.xe.bin",
        "cat9k_rommon.16.12.02.SPA.bin",
        "cat9k_iosxe.17.03.*.17.03.05.SPA.bin",
        "cat9k_iosxe.17.03.05 copy.bin",
    ],
)
def test_only_a_system_image_with_a_plain_name_is_named(name):
    """A wireless sub-package, firmware, a name with a wild card or a blank: they stay."""
    assert [row.name for row in found(LISTING.replace(OLD, name)).files] == [OLDER]


STACK = """                                           H/W   Current
Switch#   Role    Mac Address     Priority Version  State
------------------------------------------------------------
*1       Active   04bd.9715.5140     5      V02     Ready
 2       Member   04bd.9715.5141     5      V02     Removed
"""
WHOLE = STACK.replace("Removed", "Ready")
SECOND = VERSION + "     2 41    C9300-24UX         17.06.01          CAT9K_IOSXE           INSTALL\n"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"outcomes": {Topic.BOOT: Outcome.UNREADABLE}}, "'boot' cannot be read"),
        ({"outcomes": {Topic.BOOT: Outcome.NOT_THERE}}, "what is booted next is not shown"),
        ({"outcomes": {Topic.BOOT: Outcome.EMPTY}}, "what is booted next is not shown"),
        ({"boot": BOOT[: BOOT.index("Boot Variables on")]}, "what is booted next is not shown"),
        ({"boot": BOOT_BLOCK.format(2), "stack": WHOLE}, "not shown for the active member"),
        ({"boot": "strange words"}, "'boot' cannot be read"),
        ({"outcomes": {Topic.INSTALL: Outcome.NOT_THERE}}, "'install' was not read"),
        ({"install": INSTALL[:200]}, "'install' cannot be read"),
        ({"outcomes": {Topic.PACKAGES: Outcome.UNREADABLE}}, "'packages' cannot be read"),
        ({"packages": "strange words"}, "'packages' cannot be read"),
        ({"outcomes": {Topic.PACKAGES: Outcome.EMPTY}}, "'packages' was not read"),
        ({"install": INSTALL.replace("inactive", "active , time before rollback - 01:57:05")}, "timer"),
        ({"install": INSTALL.replace("IMG   C", "IMG   U")}, "not committed"),
        ({"install": INSTALL.replace("IMG   C", "IMG   D")}, "not committed"),
        ({"issu": "strange words"}, "upgrade in service"),
        ({"outcomes": {Topic.ISSU: Outcome.UNREADABLE}}, "'issu' cannot be read"),
        ({"stack": STACK}, "member 2 is Removed"),
        ({"stack": STACK[:-20]}, "'stack' cannot be read"),
        ({"version": SECOND}, "members of the stack are not all shown"),
        ({"version": VERSION.replace("System image", "Some image")}, "what it runs is not shown"),
        ({"version": SECOND.replace("INSTALL\n     2", "BUNDLE\n     2")}, "how it boots"),
        ({"listing": LISTING[:600]}, "listing of its files is not whole"),
        ({"listing": LISTING.replace("573808711  Nov", "57380871x  Nov", 1)}, "listing of its files is not whole"),
        ({"listing": ""}, "listing of its files is not whole"),
        ({"listing": LISTING.replace("packages.conf", "packages.old")}, "is not in the listing"),
        ({"file_system": "usb0:"}, "is elsewhere"),
        ({"version": VERSION.replace("flash:packages.conf", "flash:/old/packages.conf")}, "is elsewhere"),
    ],
)  # fmt: skip
def test_where_anything_is_in_doubt_nothing_is_named(changed, words):
    """Each table missing, cut or garbled, a member away, an operation half done: the reason, and no file."""
    changed = dict(changed)
    result = found(changed.pop("listing", LISTING), **changed)
    assert result.files == ()
    assert words in result.reason
    assert words in removable_in_words(result, "flash:")


def test_where_all_is_needed_that_is_said():
    """No old image is there: nothing is invented."""
    lean = "\n".join(line for line in LISTING.splitlines() if OLD not in line and OLDER not in line)
    assert removable_in_words(found(lean), "flash:").startswith("No image there is older")


@pytest.mark.parametrize("lost", [DeviceUnreachable, OutputNotUnderstood])
def test_a_device_that_stops_answering_costs_the_hint_alone(lost):
    """Which files could go is asked behind a refusal: the refusal stands, and the hint says that nobody can tell."""

    class Gone:
        platform = IOS_XE

        def show_version(self):
            raise lost("no prompt within 60 s", host="r1", hint="Look at the line")

    hint = could_go(Gone(), LISTING, file_system="flash:", lines=(), kept=(WANTED,))
    assert hint == "Which files could go is not known: no prompt within 60 s"
