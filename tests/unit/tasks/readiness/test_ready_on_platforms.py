"""Each condition of docs/ready.md is broken in turn on every platform of the lab: the answer is never yes.

A stand-in of the platform is made ready, and what it answers is recorded; then one answer is changed at a time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator

import pytest

from flashferry.images.file_name import release_of_image
from flashferry.images.image import Image
from flashferry.lab.standin.platform import load_platform
from tasks.check import TargetImage
from tasks.readiness.check import check_readiness
from tasks.readiness.values import Asked, Met, Readiness, Verdict
from tests.unit.lab.standin.console import new_console
from tests.unit.tasks.conftest import TableDevice

SIZE_BYTES = 40_000
CONTENT = b"x" * SIZE_BYTES
SHA512, MD5 = hashlib.sha512(CONTENT).hexdigest(), hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
CARET = "      ^\n% Invalid input detected at '^' marker.\n"
ON_SWITCHES, ON_ROUTERS = ("boot system switch all {}",), ("boot system {}",)

PLATFORMS: dict[str, tuple[str, tuple[str, ...], Verdict]] = {
    "c9300-17.6": ("cat9k_iosxe.17.12.04.SPA.bin", ON_SWITCHES, Verdict.YES),
    "c9300-eight-17.6": ("cat9k_iosxe.17.12.04.SPA.bin", ON_SWITCHES, Verdict.YES),
    "c9300-alone-bundle-17.6": ("cat9k_iosxe.17.12.04.SPA.bin", ON_SWITCHES, Verdict.YES),
    "c9300-bundle-17.6": ("cat9k_iosxe.17.12.04.SPA.bin", ON_SWITCHES, Verdict.YES),
    "c9300-eight-bundle-17.6": ("cat9k_iosxe.17.12.04.SPA.bin", ON_SWITCHES, Verdict.YES),
    "c8000v-17.15": ("c8000v-universalk9.17.15.03a.SPA.bin", (), Verdict.YES),
    "asr1006-16.3": ("asr1000rpx86-universalk9.16.09.04.SPA.bin", ON_ROUTERS, Verdict.YES),
    "asr1006-dual-16.3": ("asr1000rpx86-universalk9.16.09.04.SPA.bin", ON_ROUTERS, Verdict.YES),
    "isr4321-16.6": ("isr4300-universalk9.16.09.04.SPA.bin", ON_ROUTERS, Verdict.YES),
    "c2811-15.1": ("c2800nm-adventerprisek9-mz.151-4.M12a.bin", ON_ROUTERS, Verdict.YES),
    "csr1000v-16.11": ("csr1000v-universalk9.16.12.05.SPA.bin", (), Verdict.YES),
    # Nothing on it says what it boots.
    "iosv-15.8": ("vios-adventerprisek9-m.spa.159-3.m6.bin", (), Verdict.UNKNOWN),
}
"""The image, what is configured beside the platform's own lines, and the answer before anything is broken."""


class Recording(TableDevice):
    """A session that keeps what a stand-in answers."""

    def __init__(self, console) -> None:
        super().__init__({})
        self._console = console

    def _answer(self, command: str) -> str:
        if command not in self.answers:
            self.answers[command] = self._console.show(command)
        return self.answers[command]


class Replaying(TableDevice):
    """A session that answers what was kept, by the whole command."""

    def _answer(self, command: str) -> str:
        return self.answers.get(command, CARET)


def wanted(name: str) -> TargetImage:
    return TargetImage(image=Image(name=name, size_bytes=SIZE_BYTES, md5=MD5, sha512=SHA512))


def recorded(tmp_path, platform: str) -> tuple[dict[str, str], Readiness]:
    """Return what a ready device of a platform answers, and what is made of it."""
    name, lines, _ = PLATFORMS[platform]
    image = load_platform(platform).image
    booted = [line.format(image) for line in lines]
    console = new_console(tmp_path / platform, platform, config_lines=tuple(booted))
    for flash in console.device.file_systems:
        flash.write(name, CONTENT)
    if console.device.install is not None:
        assert "SUCCESS" in console.show(f"install add file {console.device.flash.prefix}{name}")
    device = Recording(console)
    found = check_readiness(device, wanted(name))
    return dict(device.answers), found


def without_rows(text: str, pattern: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not re.search(pattern, line))


def breaks(answers: dict[str, str], name: str) -> Iterator[tuple[Asked, str, dict[str, str]]]:
    """Yield each condition with what is broken of it, and the answers that say so."""

    def change(asked: Asked, what: str, command: str, text: str):
        if command in answers and text != answers[command]:
            yield asked, f"{what} ({command})", answers | {command: text}

    def each(start: str, asked: Asked, what: str, edit: Callable[[str], str]):
        for command, text in answers.items():
            if command.startswith(start):
                yield from change(asked, what, command, edit(text))

    listings = [one for one in answers if re.fullmatch(r"dir \S+:", one)]
    for command in listings:
        listing = answers[command]
        # A member that `install add` handed its packages needs no file of its own.
        if command == listings[0] or "show install summary" not in answers:
            yield from change(Asked.IMAGE, "no image", command, without_rows(listing, re.escape(name)))
        yield from change(
            Asked.IMAGE, "short image", command, listing.replace(f" {SIZE_BYTES} ", f" {SIZE_BYTES - 1} ")
        )
        yield from change(Asked.IMAGE, "refused", command, CARET)
        if "show install summary" not in answers:
            continue
        yield from change(Asked.SPACE, "cut", command, listing.rpartition("\n\n")[0])
        yield from change(Asked.SPACE, "no room", command, re.sub(r"\(\d+ bytes free", "(1000 bytes free", listing))
        yield from change(Asked.BOOT, "no packages.conf", command, without_rows(listing, r"packages\.conf$"))
        # What neither boots nor was added may go.
        booted = next(text for one, text in answers.items() if one.startswith("more "))
        release = release_of_image(name)
        for package in re.findall(r"(\S+\.pkg)$", listing, re.MULTILINE):
            if package in booted or release_of_image(package) == release:
                yield from change(Asked.BOOT, f"no {package}", command, without_rows(listing, re.escape(package)))
    yield from each(
        "verify /", Asked.IMAGE, "other hash", lambda text: re.sub(r"= [0-9a-f]{32,}", "= " + "0" * 128, text)
    )
    yield from each("verify /", Asked.IMAGE, "hash refused", lambda _: CARET)
    signature = f"%ERROR: Signature mismatch in flash:/{name}.\n"
    for command in [one for one in answers if re.match(r"verify [^/]", one)]:
        yield from change(Asked.SIGNATURE, "mismatch", command, signature)
    for command in ("show install summary",):
        text = answers.get(command, "")
        yield from change(Asked.INSTALLED, "not added", command, without_rows(text, r"^IMG\s+I"))
        yield from change(Asked.INSTALLED, "none committed", command, without_rows(text, r"^IMG\s+C"))
        yield from change(
            Asked.INSTALLED, "other release", command, re.sub(r"(IMG\s+I\s+)\S+", r"\g<1>17.09.04.0.1", text)
        )
        yield from change(Asked.INSTALLED, "uncommitted", command, re.sub(r"IMG(\s+)I", r"IMG\1U", text))
        yield from change(Asked.INSTALLED, "one member", command, re.sub(r"\[ Switch 1 [\d ]+\]", "[ Switch 1 ]", text))
        yield from change(Asked.INSTALLED, "other place", command, re.sub(r"\[ R0 \]", "[ R1 ]", text) + "x\n")
        yield from change(Asked.INSTALLED, "refused", command, CARET)
        yield from change(
            Asked.TIMER,
            "runs",
            command,
            text.replace("timer: inactive", "timer: active , time before rollback - 01:00:00"),
        )
    yield from each("more ", Asked.BOOT, "refused", lambda _: "Command authorization failed.\n")
    yield from each("show switch", Asked.MEMBERS, "refused", lambda text: CARET if "Ready" in text else text)
    switch = answers.get("show switch", "")
    for row in re.findall(r"^[* ]\d.*Ready\s*$", switch, re.MULTILINE):
        for state in ("Removed", "V-Mismatch", "Provisioned"):
            yield from change(Asked.MEMBERS, state, "show switch", switch.replace(row, row.replace("Ready", state)))
        yield from change(Asked.MEMBERS, "gone", "show switch", switch.replace(row, ""))
    states = answers.get("show redundancy states", "")
    yield from change(Asked.PEER, "cold", "show redundancy states", states.replace("STANDBY HOT", "STANDBY COLD"))
    yield from change(Asked.PEER, "coming", "show redundancy states", states.replace("-DISABLED", "-STANDBY COLD"))
    if "peer" in states:
        yield from change(Asked.PEER, "refused", "show redundancy states", "Command authorization failed.\n")
    for command in ("show boot", "show bootvar"):
        text = answers.get(command, "")
        if "Invalid input" in text:
            continue
        yield from change(
            Asked.BOOT,
            "another file",
            command,
            re.sub(r"((?:BOOT variable|BOOT path-list *) *[=:] *)\S+", r"\1flash:gone.bin", text),
        )
        yield from change(Asked.BOOT, "refused", command, "Command authorization failed.\n")
        yield from change(Asked.BOOT, "empty", command, "\n")
        yield from change(Asked.MANUAL, "on", command, re.sub(r"(Manual Boot *[=:] *)no", r"\1yes", text))
        for register in ("0x2142", "0x2100"):
            yield from change(
                Asked.REGISTER, register, command, re.sub(r"(egister is )0x\w+", rf"\g<1>{register}", text)
            )
    if "egister is" not in answers.get("show boot", "") + answers.get("show bootvar", ""):
        for register in ("0x2142", "0x2100"):
            version = re.sub(r"(egister is )0x\w+", rf"\g<1>{register}", answers["show version"])
            yield from change(Asked.REGISTER, register, "show version", version)
    startup = answers["show startup-config"]
    yield from change(
        Asked.SAVED, "another file", "show startup-config", startup.replace("hostname ", "hostname other-")
    )
    yield from change(Asked.SAVED, "none", "show startup-config", "startup-config is not present\n")
    yield from change(Asked.SAVED, "refused", "show startup-config", "Command authorization failed.\n")
    yield from each(
        "show issu", Asked.ISSU, "going on", lambda _: "Slot being modified: R1\n  Last operation: loadversion\n"
    )
    for command in ("show running-config", "show startup-config"):
        mark = answers[command].replace("\nend", "\nalias exec flashferry-20261120-100000-ab12 ops@controller1\nend")
        yield from change(Asked.OURS, "mark", command, mark)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_whatever_condition_is_broken_the_answer_is_never_yes(tmp_path, platform: str) -> None:
    """Each alone, at each place; and no condition of the page is left out that the platform has."""
    name, _, expected = PLATFORMS[platform]
    answers, ready = recorded(tmp_path, platform)
    assert ready.verdict is expected, [(one.name.value, one.sentence) for one in ready.blocking]
    assert check_readiness(Replaying(answers), wanted(name)).verdict is expected
    false, broken = [], set()
    for asked, what, changed in breaks(answers, name):
        found = check_readiness(Replaying(changed), wanted(name))
        broken.add(asked)
        if found.is_good:
            false.append(f"{asked.value}: {what}")
    assert false == []
    assert check_readiness(Replaying(answers), wanted(name), owed="a run has it in hand").is_good is False
    applies = {one.name for one in ready.conditions if one.met is not Met.DOES_NOT_APPLY}
    assert applies <= broken | {Asked.OURS}
