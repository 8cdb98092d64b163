"""Conditions on the next boot: boot variable, configuration register, manual boot. Pure.

Facts
-----

* The last digit of the register says what is booted (0 ROMMON, 1 the first image, 2 to F what the boot variable names),
  bit 6 that the startup configuration is ignored: 0x2142. A Catalyst 2960 or 3750 shows 0xF.
* Virtual routers boot by GRUB from what is installed: with `packages.conf` and no boot variable they boot what they
  run. Nothing on IOSv shows what it boots.
* Catalysts show manual booting, routers do not: there the register shows it.
"""

from __future__ import annotations

from collections.abc import Iterable

from flashferry.devices.platforms.platform import split_path
from flashferry.images.file_name import read_file_name, release_in
from tasks.file_system import file_named, free_bytes
from tasks.readiness.values import Asked, Condition, Evidence, Held, Met
from tasks.software_state import STANDBY, Answer, Boot, Mode, Topic
from templates.rows import DirFile, rows

PASSES_STARTUP_OVER = 0x40
OF_OLD_CATALYSTS = 0xF


def boot_variable(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether each member boots a file that exists: the running one, or the image."""
    software = evidence.software
    answer = software.answers[Topic.BOOT]
    if not answer.is_read:
        yield _says(Asked.BOOT, Met.UNKNOWN, "what is booted next cannot be read", answer)
        return
    for boot in software.boot:
        met, sentence = _boots(evidence, boot)
        yield _says(Asked.BOOT, met, sentence, answer, boot)
    known = {boot.place for boot in software.boot}
    if "" not in known and not software.is_stack and len(known) != 1:
        yield _says(Asked.BOOT, Met.UNKNOWN, "it does not say what the active supervisor boots", answer)
    # On older stacks the first block has no number.
    others = [str(unit.number) for unit in software.units if str(unit.number) not in known]
    for number in others[1:] if "" in known else others:
        yield _says(Asked.BOOT, Met.UNKNOWN, f"it does not say what member {number} boots", answer)
    if software.has_standby and not software.is_stack and STANDBY not in known:
        yield _says(Asked.BOOT, Met.UNKNOWN, "it does not say what the standby boots", answer)


def _boots(evidence: Evidence, boot: Boot) -> tuple[Met, str]:
    running, mode = evidence.software.running_file, evidence.software.mode
    if boot.next is None:
        return Met.UNKNOWN, "what is booted from the next reload on is not shown"
    if not boot.files:
        return _boots_without(evidence)
    if running is None:
        return Met.UNKNOWN, "what it runs now is not shown"
    first = boot.files[0]
    there = _is_there(evidence, boot.place, first)
    if there is None:
        return Met.UNKNOWN, f"whether {first} is there is not known"
    if not there:
        return Met.NOT_MET, f"{first} is booted next, and is not there, or empty"
    if mode is not Mode.INSTALL and _is(evidence, first, evidence.image.name):
        return Met.MET, f"{first}, the image itself, is booted next, and is there"
    if not evidence.names.same_file(_own(first), _own(running)):
        return Met.NOT_MET, f"{first} is booted next, but {running} is what it runs"
    return _without_packages(evidence, boot.place, first) or (
        Met.MET,
        f"{first}, which it runs, is booted next, and is there",
    )


def _without_packages(evidence: Evidence, place: str, path: str) -> tuple[Met, str] | None:
    """Return which package of a provisioning file is missing on the same file system, or None."""
    software = evidence.software
    if software.mode is not Mode.INSTALL:
        return None
    if not software.answers[Topic.PACKAGES].is_read:
        return Met.UNKNOWN, f"which packages {path} boots cannot be read"
    held = _flash_of(evidence, place, path)
    if held is None:
        return Met.UNKNOWN, f"whether the packages of {path} are there is unknown"
    running = release_in(software.version.release)
    for name in software.package_files:
        there, release = _lists(held.listing, name), read_file_name(name).release
        if there is None:
            return Met.UNKNOWN, f"whether {name} is on {held.file_system} is unknown"
        if not there:
            return Met.NOT_MET, f"{path} boots {name}, which is not on {held.file_system}, or empty"
        if None not in {running, release} and running != release:
            return Met.NOT_MET, f"{path} boots {name}, but {running} is what it runs"
        if (other := _other_size(evidence, held, name)) is not None:
            return Met.NOT_MET, f"{path} boots {name}: {other}"
    return None


def _other_size(evidence: Evidence, held: Held, name: str) -> str | None:
    """Return a file's sizes there and on the active member's flash if they differ, or None."""
    here, active = (sizes_on(one).get(name) for one in (held, evidence.held[0]))
    if here is None or active is None or here == active:
        return None
    return f"{here} bytes on {held.file_system}, {active} on {evidence.held[0].file_system}"


def _boots_without(evidence: Evidence) -> tuple[Met, str]:
    software = evidence.software
    if not evidence.is_virtual:
        return Met.NOT_MET, "no file is named: the first image that is found is booted, whichever that is"
    if software.mode is Mode.INSTALL:
        return _boots_installed(evidence)
    return Met.UNKNOWN, "a virtual router names no file, and nothing on it shows what it boots"


def _boots_installed(evidence: Evidence) -> tuple[Met, str]:
    """Return whether the file that a virtual router boots without a boot variable exists."""
    running = evidence.software.running_file
    there = _is_there(evidence, "", running) if running is not None else None
    if running is None or there is None:
        return Met.UNKNOWN, "a virtual router boots what is installed; whether that is there is unknown"
    if not there:
        return Met.NOT_MET, f"a virtual router boots {running} without a boot variable, and it is not there"
    return _without_packages(evidence, "", running) or (
        Met.MET,
        f"a virtual router boots {running} without a boot variable, and it is there",
    )


def _is(evidence: Evidence, path: str, name: str) -> bool:
    held = evidence.held[0] if evidence.held else None
    return held is not None and evidence.names.same_file(_own(path), f"{held.file_system}{name}")


def _own(path: str) -> str:
    """Return a boot variable's path as the running system prints it; some have only the file name."""
    return path if ":" in path else f"flash:{path}"


def _is_there(evidence: Evidence, place: str, path: str) -> bool | None:
    """Return whether a boot file is on the flash of the member that boots it; None if unknown."""
    held = _flash_of(evidence, place, path)
    system, name = split_path(_own(path))
    if held is not None and "/" not in name:
        listing = held.listing
    elif place in {"", _active(evidence)} and path in evidence.boot_listings:
        listing, name = evidence.boot_listings[path], name.rpartition("/")[2]
    else:
        return None
    return _lists(listing, name) if system else None


def _lists(listing: Answer, name: str) -> bool | None:
    """Return whether a listing has a file of exactly that name, not empty; None if it cannot be read."""
    if not listing.is_read:
        return None
    try:
        found = file_named(listing.text, name)
    except ValueError:
        return None
    if found is None and free_bytes(listing.text) is None and "No such file" not in listing.text:
        return None
    return found is not None and found.name == name and _is_filled(found)


def _is_filled(row: DirFile) -> bool:
    return not row.permissions.startswith("d") and row.size_bytes > 0


def sizes_on(held: Held) -> dict[str, int]:
    """Return the sizes in bytes of the non-empty files on a file system, by name."""
    return {row.name: row.size_bytes for row in rows(DirFile, held.listing.text) if _is_filled(row)}


def _flash_of(evidence: Evidence, place: str, path: str) -> Held | None:
    """Return the file system of a member that a path is on: each member's own flash has the same name."""
    at = "" if place == _active(evidence) else place
    if at == "" and place == "" and not evidence.held:
        return None
    held = next((one for one in evidence.held if one.place == at), None)
    if held is None or not evidence.held:
        return None
    active = evidence.held[0].file_system
    return held if evidence.names.same_file(f"{active}x", f"{split_path(_own(path))[0]}:x") else None


def _active(evidence: Evidence) -> str:
    """Return the number of the member that answers; empty for a device that is not a stack."""
    return next((str(unit.number) for unit in evidence.software.units if unit.active), "")


def register(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether the register has the device follow the boot variable and read the startup configuration."""
    software = evidence.software
    answer = software.answers[Topic.BOOT]
    known = _shows_register(answer)
    version = software.answers[Topic.VERSION]
    by = answer if known else version
    for boot in software.boot or (Boot(place=""),):
        if boot.place not in {"", _active(evidence)} and boot.register is None and not known:
            continue
        if boot.place.isdigit() and boot.place != _active(evidence):
            continue
        met, sentence = _registered(evidence, boot.register)
        yield _says(Asked.REGISTER, met, sentence, by, boot, lines=by.lines_with("onfiguration register", "n Register"))


def _shows_register(answer: Answer) -> bool:
    return answer.is_read and bool(answer.lines_with("onfiguration register", "onfiguration Register"))


def _registered(evidence: Evidence, value: str | None) -> tuple[Met, str]:
    if value is None:
        return Met.UNKNOWN, "the configuration register is not shown"
    number = int(value, 16)
    if evidence.is_virtual and evidence.software.mode is not Mode.INSTALL:
        return Met.UNKNOWN, f"the register of this virtual router is {value}, which does not show what it boots"
    if number & PASSES_STARTUP_OVER:
        return Met.NOT_MET, f"the register is {value}: the startup configuration would be passed over"
    if number & 0xF == 2 or number == OF_OLD_CATALYSTS:
        return Met.MET, f"the register is {value}"
    return Met.NOT_MET, f"the register is {value}, expected one that ends in 2, such as 0x2102 or 0x102"


def manual_boot(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether the device boots without a console."""
    answer = evidence.software.answers[Topic.BOOT]
    if not answer.is_read:
        yield _says(Asked.MANUAL, Met.UNKNOWN, "whether it waits at the console cannot be read", answer)
        return
    lines = answer.lines_with("anual Boot", "MANUAL_BOOT")
    boots = evidence.software.boot
    if all(boot.manual is None for boot in boots) and not lines and _shows_register(answer):
        yield _says(Asked.MANUAL, Met.DOES_NOT_APPLY, "the platform shows none; the register says it", answer)
        return
    for boot in boots:
        if boot.manual is None:
            met, sentence = Met.UNKNOWN, "whether it waits at the console is not shown"
        elif boot.manual:
            met, sentence = Met.NOT_MET, "manual boot is on: it would wait at ROMMON's prompt"
        else:
            met, sentence = Met.MET, "manual boot is off"
        yield _says(Asked.MANUAL, met, sentence, answer, boot, lines=lines)


def _says(
    name: Asked,
    met: Met,
    sentence: str,
    answer: Answer,
    boot: Boot | None = None,
    *,
    lines: tuple[str, ...] | None = None,
) -> Condition:
    place = boot.place if boot is not None else ""
    where = f"member {place}" if place.isdigit() else place
    kept = answer.lines_with("BOOT variable", "BOOT path-list") if lines is None else lines
    return Condition(name=name, met=met, sentence=sentence, command=answer.command, lines=kept, place=where)
