"""The conditions for booting an image, each from the evidence of a check, and the verdict. Pure.

A condition is met only if a line of the device proves it; what cannot be read is unknown and never met; what a platform
does not have does not apply only if the platform itself showed that. The verdict is yes only if each condition is met
or does not apply. Conditions on the next boot are in `tasks.readiness.boot`.

Facts
-----

* `install add` in install mode distributes packages to a stack's other members; whether it leaves the `.bin` there was
  seen once (C9200L) and is open elsewhere: a member that `show install summary` lists needs no file of its own.
* With more than one inactive image it is open which one `install activate` takes; an inactive patch is taken, too.
* A running timer restores the old image in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flashferry.core.units import counted
from flashferry.images.file_name import FileKind, ImageRelease, read_file_name, release_in
from tasks.file_system import file_named, free_bytes, needed_bytes
from tasks.readiness.boot import boot_variable, manual_boot, register, sizes_on
from tasks.readiness.values import Asked, Condition, Evidence, Held, Met, Proof, Readiness, Sealed, Verdict
from tasks.software_state import IMAGE, STANDBY, Answer, Issu, Mode, Outcome, SoftwareState, Topic
from tasks.verify import Signature

_Found = tuple[Met, str, tuple[str, ...]]
"""Whether a condition is met, a sentence, and the lines that prove it."""

LEAST_SPACE_BYTES = 10_000_000
"""Space that activation needs besides packages: a provisioning file, logs. Our own choice; no document names a
figure."""


def images(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether each file system that must hold the image has it complete, by the hash that the device computes."""
    for held in evidence.held:
        met, sentence, lines = _is_held(evidence, held)
        by = held.command or held.listing.command
        if met is Met.DOES_NOT_APPLY:
            by = evidence.software.answers[Topic.INSTALL].command
        place = held.file_system or _spoken(held.place)
        yield Condition(name=Asked.IMAGE, met=met, sentence=sentence, command=by, lines=lines, place=place)


def _is_held(evidence: Evidence, held: Held) -> _Found:
    """Return whether a file system holds the image, by its listing, then by its hash."""
    name, place = evidence.image.name, held.file_system or _spoken(held.place)
    if not held.listing.is_read:
        return Met.UNKNOWN, f"{place} cannot be listed", _words(held.listing)
    try:
        entry = file_named(held.listing.text, name)
    except ValueError as error:
        return Met.UNKNOWN, str(error), ()
    rows = held.listing.lines_with(name)
    if entry is None:
        return _is_missing(evidence, held, place)
    if entry.name != name or entry.permissions.startswith("d"):
        return Met.NOT_MET, f"{name} is not on {place}", rows
    if entry.size_bytes != evidence.image.size_bytes:
        sizes = f"{entry.size_bytes} bytes, expected {evidence.image.size_bytes}"
        return Met.NOT_MET, f"{place}{name} is not whole: {sizes}", rows
    if held.proof is Proof.EQUAL and evidence.false_copy is not None:
        return Met.UNKNOWN, f"{place}{name} has the expected hash by {evidence.false_copy}", (held.words,)
    met, words = _PROOFS[held.proof or Proof.NONE]
    return met, words.format(f"{place}{name}") + ("" if met is Met.MET else f": {held.words}"), (held.words,)


_PROOFS = {
    Proof.EQUAL: (Met.MET, "{} is the expected file"),
    Proof.OTHER: (Met.NOT_MET, "{} has another hash"),
    Proof.NONE: (Met.UNKNOWN, "the device computed no hash of {}"),
}


def _is_missing(evidence: Evidence, held: Held, place: str) -> _Found:
    if free_bytes(held.listing.text) is None:
        return Met.UNKNOWN, f"the list of {place} ends before its last line", ()
    if held.place and _is_added_at(evidence, held.place):
        handed = f"'install add' has handed {_spoken(held.place)} its packages; it needs no file of its own"
        return Met.DOES_NOT_APPLY, handed, evidence.software.answers[Topic.INSTALL].lines_with("IMG ")
    return Met.NOT_MET, f"{evidence.image.name} is not on {place}", ()


def signature(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether the vendor's signature is good, if there is one and the device can verify it."""
    seal = evidence.signature
    if seal is None:
        met, sentence, command, words = Met.DOES_NOT_APPLY, "the signature was not asked for", "", ""
    else:
        met, sentence = _sealed(seal)
        command, words = seal.command, seal.words
    lines = (words,) if words else ()
    yield Condition(name=Asked.SIGNATURE, met=met, sentence=sentence, command=command, lines=lines)


def _sealed(seal: Sealed) -> tuple[Met, str]:
    if seal.outcome is None:
        return Met.DOES_NOT_APPLY, "the device has no command for it"
    if seal.outcome is Signature.VERIFIED:
        return Met.MET, "the device verified the signature"
    if seal.outcome is Signature.HASH_ONLY:
        return Met.MET, "the hash inside the image is good; this release says nothing about a signature"
    if seal.outcome is Signature.REFUSED and "Not able to process Signature" in seal.words:
        return Met.DOES_NOT_APPLY, "the device finds no signature in the image, which is the published one by its hash"
    if seal.outcome is Signature.REFUSED:
        return Met.NOT_MET, f"the device rejects the signature: {seal.words}"
    return Met.UNKNOWN, "the device says nothing about the signature that can be read"


def installed(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether in install mode each member has one committed image, and the target inactive or committed."""
    answer = evidence.software.answers[Topic.INSTALL]
    met, sentence = _is_installed(evidence)
    lines = answer.lines_with("IMG ", "SMU ") if answer.is_read else _words(answer)
    yield _rests_on(answer, Asked.INSTALLED, met, sentence, lines)


def _is_installed(evidence: Evidence) -> tuple[Met, str]:
    software = evidence.software
    if software.mode is Mode.BUNDLE:
        return Met.DOES_NOT_APPLY, "it boots from one file, nothing is to be installed"
    if software.mode is Mode.UNKNOWN:
        return Met.UNKNOWN, "it does not say whether it boots from packages or from one file"
    if not software.answers[Topic.INSTALL].is_read:
        return Met.UNKNOWN, "what is installed cannot be read"
    kind = read_file_name(evidence.image.name).kind
    if kind not in {FileKind.IMAGE, FileKind.ARCHIVE}:
        return Met.NOT_MET, f"{evidence.image.name} is a {kind.value} by its name, and no image to boot"
    if evidence.image_release is None:
        return Met.UNKNOWN, f"the name of {evidence.image.name} does not show its release"
    if evidence.is_other_feature_set and release_in(software.version.release) == evidence.image_release:
        return (
            Met.NOT_MET,
            f"the device runs {evidence.image_release} in another feature set, which no table distinguishes",
        )
    places = software.install_places
    if software.unlisted_members:
        return Met.UNKNOWN, f"it says nothing of member {', '.join(software.unlisted_members)}"
    if software.has_standby and not software.is_stack and len(places) == 1:
        return Met.UNKNOWN, f"it says nothing of the standby, only of {places[0]}"
    if len(committed := software.versions("C")) > 1:
        return Met.NOT_MET, f"expected one committed image everywhere, found {', '.join(committed)}"
    wrong = (found for place in places if (found := _wrong_at(evidence, place)) is not None)
    right = f"{evidence.image_release} is added everywhere ({', '.join(places)}), one image is committed"
    return next(wrong, None) or _lacks_packages(evidence) or _added_in_part(evidence) or (Met.MET, right)


def _added_in_part(evidence: Evidence) -> tuple[Met, str] | None:
    """Return why an inactive image may lack parts, or None."""
    waits = any(release_in(one) == evidence.image_release for one in evidence.software.versions("I"))
    if evidence.failed_add is None or not waits:
        return None
    return Met.UNKNOWN, f"{evidence.image_release} is listed as added, but {evidence.failed_add}"


def _lacks_packages(evidence: Evidence) -> tuple[Met, str] | None:
    """Return where a package of the image is missing on flash, whatever the summary lists, or None.

    The packages of an image are those that another member has of it, and those of the running release.
    """
    release = evidence.image_release
    running = {_part_of(name) for name in evidence.software.package_files}
    parts = {held.file_system: _parts_on(held, release) for held in evidence.held if held.listing.is_read}
    whole = {part: size for found in parts.values() for part, size in found.items()}
    for file_system, found in parts.items():
        if not found:
            return (
                Met.NOT_MET,
                f"{file_system} has no package of {release}, though it is listed as added",
            )
        if missing := min(whole.keys() - found, default=None):
            return Met.NOT_MET, f"{missing} of {release} is not on {file_system}, or empty"
        if other := min((part for part in found if found[part] != whole[part]), default=None):
            sizes = f"{found[other]} bytes on {file_system}, {whole[other]} elsewhere"
            return Met.NOT_MET, f"{other} of {release} is not the same everywhere: {sizes}"
    if missing := min(running - whole.keys(), default=None):
        return Met.UNKNOWN, f"what runs has a package {missing}, and none of {release} is on flash"
    return None


def _part_of(package: str) -> str:
    return package.partition(".")[0]


def _parts_on(held: Held, release: ImageRelease | None) -> dict[str, int]:
    """Return the sizes in bytes of a release's packages on a file system, by name without the release."""
    files = [(read_file_name(name), size) for name, size in sizes_on(held).items()]
    packages = [(one, size) for one, size in files if one.kind is FileKind.SUB_PACKAGE and one.release == release]
    return {_part_of(one.name): size for one, size in packages}


def _wrong_at(evidence: Evidence, place: str) -> tuple[Met, str] | None:
    """Return what is wrong with the packages of one member, or None."""
    here = [row for row in evidence.software.packages if place in row.places]
    committed = [row.version for row in here if row.type == IMAGE and row.state == "C"]
    pending = [row.version for row in here if row.state in {"U", "D"}]
    inactive = [row.version for row in here if row.type == IMAGE and row.state == "I"]
    at = _spoken(place)
    if pending:
        return Met.NOT_MET, f"{pending[0]} waits to be committed on {at}"
    if len(committed) != 1:
        return Met.NOT_MET, f"expected one committed image on {at}, found {', '.join(committed) or 'none'}"
    if any(release_in(one) is None for one in (*committed, *inactive)):
        return Met.UNKNOWN, f"a version on {at} cannot be read as a release"
    is_committed = release_in(committed[0]) == evidence.image_release
    patches = [row.version for row in here if row.type != IMAGE and row.state == "I"]
    if patches and not is_committed:
        return Met.NOT_MET, f"{patches[0]} is added on {at}, too: 'install activate' would take it with the image"
    return _wrong_inactive(evidence, inactive, at, is_committed=is_committed)


def _wrong_inactive(
    evidence: Evidence, inactive: Sequence[str], at: str, *, is_committed: bool
) -> tuple[Met, str] | None:
    """Return what is wrong with the inactive images of a member, or None."""
    release = evidence.image_release
    others = [one for one in inactive if release_in(one) != release]
    if others:
        return Met.NOT_MET, f"{others[0]} is added on {at}, expected {release}: 'install activate' may take it"
    if is_committed or len(inactive) == 1:
        return None
    if inactive:
        return Met.NOT_MET, f"{release} is added more than once on {at}: {', '.join(inactive)}"
    path = f"{evidence.held[0].file_system if evidence.held else ''}{evidence.image.name}"
    return Met.NOT_MET, f"{release} is not added on {at}: 'install add file {path}'"


def _is_added_at(evidence: Evidence, place: str) -> bool:
    """Return whether the packages of the release are at a member, or at each supervisor, already."""
    software, release = evidence.software, evidence.image_release
    if software.mode is not Mode.INSTALL or release is None:
        return False
    added = (row for row in software.packages if row.type == IMAGE and row.state in {"I", "C"})
    having = {place for row in added if release_in(row.version) == release for place in row.places}
    if place.isdigit():
        return place in having
    # Supervisors are listed as R0 and R1; a switchover changes which of them is the standby.
    return len(having) > (place == STANDBY) and having == {*software.install_places}


def timer(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether no timer runs that restores another image."""
    answer = evidence.software.answers[Topic.INSTALL]
    met, sentence = _is_timed(evidence)
    lines = answer.lines_with("Auto abort timer") if answer.is_read else _words(answer)
    yield _rests_on(answer, Asked.TIMER, met, sentence, lines)


def _is_timed(evidence: Evidence) -> tuple[Met, str]:
    software = evidence.software
    found = software.timer
    if software.mode is Mode.BUNDLE:
        return Met.DOES_NOT_APPLY, "it boots from one file, there is no timer"
    if software.mode is Mode.UNKNOWN or not software.answers[Topic.INSTALL].is_read:
        return Met.UNKNOWN, "whether a timer runs cannot be read"
    if found is None:
        return Met.DOES_NOT_APPLY, f"release {software.version.release} shows no timer"
    if found.state == "inactive":
        return Met.MET, "no timer runs"
    left = f" in {found.left}" if found.left else ""
    return Met.NOT_MET, f"a timer runs that brings the old image back{left}"


def space(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether there is space for what is to be written: packages before `install add`, little afterwards."""
    for held in evidence.held:
        place = held.file_system or _spoken(held.place)
        met, sentence = _has_space(evidence, held, place)
        lines = held.listing.lines_with("bytes free")
        command = held.listing.command
        yield Condition(name=Asked.SPACE, met=met, sentence=sentence, command=command, lines=lines, place=place)


def _has_space(evidence: Evidence, held: Held, place: str) -> tuple[Met, str]:
    free = free_bytes(held.listing.text) if held.listing.is_read else None
    if evidence.software.mode is Mode.BUNDLE:
        return Met.DOES_NOT_APPLY, "it boots from the file itself, nothing more is written"
    if free is None:
        return Met.UNKNOWN, f"{place} does not say how much space it has"
    own = held.place or next((str(unit.number) for unit in evidence.software.units if unit.active), "")
    needed, what = needed_bytes(evidence.image.size_bytes), "'install add'"
    if _is_added_at(evidence, own):
        needed, what = LEAST_SPACE_BYTES, "activation"
    met = Met.MET if free >= needed else Met.NOT_MET
    return met, f"{place} has {free} bytes free, {what} needs {needed}"


def members(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether all members of a stack are ready."""
    software = evidence.software
    answer = software.answers[Topic.STACK]
    met, sentence = _are_ready(evidence)
    lines = tuple(line for unit in software.units for line in answer.lines_with(unit.mac))
    yield _rests_on(answer, Asked.MEMBERS, met, sentence, lines or _words(answer))


def _are_ready(evidence: Evidence) -> tuple[Met, str]:
    software = evidence.software
    answer = software.answers[Topic.STACK]
    if answer.outcome is Outcome.NOT_THERE and not software.is_stack and not evidence.expected_members:
        return Met.DOES_NOT_APPLY, "it is no stack"
    if not answer.is_read:
        return Met.UNKNOWN, "the members cannot be read"
    away = [unit for unit in software.units if unit.state != "Ready"]
    if away:
        return Met.NOT_MET, f"member {away[0].number} is '{away[0].state}', expected 'Ready'"
    return _are_the_same(evidence, {unit.number for unit in software.units})


def _are_the_same(evidence: Evidence, numbers: set[int]) -> tuple[Met, str]:
    """Return whether the members are those of `show version`, and those of the staging."""
    booted = {member.number for member in evidence.software.version.members}
    expected = set(evidence.expected_members or ())
    if lost := sorted((booted | expected) - numbers):
        return Met.NOT_MET, f"member {lost[0]} is gone"
    if expected and numbers - expected:
        return Met.NOT_MET, f"member {min(numbers - expected)} is new since the image was staged"
    if booted and numbers - booted:
        return Met.UNKNOWN, f"'show version' does not know member {min(numbers - booted)}"
    versions = tuple(dict.fromkeys(member.version for member in evidence.software.version.members))
    if len(versions) > 1:
        return Met.NOT_MET, f"the members run different releases: {', '.join(versions)}"
    return Met.MET, f"all {counted(len(numbers), 'member')} ready"


def peer(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether the other supervisor, or standby switch, is hot, or there is none."""
    answer = evidence.software.answers[Topic.REDUNDANCY]
    met, sentence = _is_hot(evidence.software)
    lines = answer.lines_with("my state", "peer state", "Mode =") if answer.is_read else _words(answer)
    yield _rests_on(answer, Asked.PEER, met, sentence, lines)


def _is_hot(software: SoftwareState) -> tuple[Met, str]:
    found = software.redundancy
    boots_two = any(one.place == STANDBY for one in software.boot)
    has_role = any(unit.role == "Standby" for unit in software.units)
    if software.answers[Topic.REDUNDANCY].outcome is Outcome.NOT_THERE and not has_role and not boots_two:
        return Met.DOES_NOT_APPLY, "the platform knows no standby"
    if found is None:
        return Met.UNKNOWN, "the state of the supervisors cannot be read"
    if found.mine.upper() != "ACTIVE":
        return Met.NOT_MET, f"the session is not at the active supervisor, which is '{found.mine}'"
    if found.peer.upper() == "STANDBY HOT":
        return Met.MET, "the standby is hot"
    is_alone = found.mode.casefold() == "simplex" and found.peer.upper() == "DISABLED"
    if is_alone and not software.is_stack and not boots_two:
        return Met.MET, "there is no standby"
    return Met.NOT_MET, f"the standby is '{found.peer}', expected 'STANDBY HOT'"


def saved(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether running and startup configuration agree: unsaved lines are lost in the reload."""
    found = evidence.configuration
    if found is None or found.saved is None:
        met, sentence = Met.UNKNOWN, "whether the configuration is saved is not known"
    elif found.saved:
        met, sentence = Met.MET, "the running configuration is saved"
    else:
        met, sentence = Met.NOT_MET, next(iter(found.notes))
    yield Condition(name=Asked.SAVED, met=met, sentence=sentence, command=evidence.compared_by)


def issu(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether no in-service software upgrade is running."""
    answer = evidence.software.answers[Topic.ISSU]
    lines = answer.lines_with("ISSU", "Slot being modified", "Last operation", "Rollback:")
    met, sentence = {
        Issu.IDLE: (Met.MET, "none is going on"),
        Issu.GOING_ON: (Met.NOT_MET, "an upgrade in service is going on, or waits to be committed"),
        Issu.NOT_THERE: (Met.DOES_NOT_APPLY, "the platform shows none"),
        Issu.UNKNOWN: (Met.UNKNOWN, "whether one is going on cannot be read"),
    }[evidence.software.issu]
    yield _rests_on(answer, Asked.ISSU, met, sentence, lines or _words(answer))


def ours(evidence: Evidence) -> Iterable[Condition]:
    """Yield whether no line or applet of ours is left, in either configuration and by the journal."""
    found = evidence.leftovers
    if evidence.owed is not None:
        met, sentence = Met.NOT_MET, evidence.owed
    elif found is None:
        met, sentence = Met.UNKNOWN, "the configuration cannot be read"
    elif found:
        met = Met.NOT_MET
        sentence = f"the {found[0].where} configuration has '{found[0].line}': run 'flashferry recover'"
    else:
        met, sentence = Met.MET, "neither configuration has a line of ours"
    lines = tuple(one.line for one in found or ())
    yield Condition(name=Asked.OURS, met=met, sentence=sentence, command="show running-config", lines=lines)


def _spoken(place: str) -> str:
    if place.isdigit():
        return f"member {place}"
    return place or "the device"


def _rests_on(answer: Answer, name: Asked, met: Met, sentence: str, lines: tuple[str, ...]) -> Condition:
    return Condition(name=name, met=met, sentence=sentence, command=answer.command, lines=lines)


def _words(answer: Answer) -> tuple[str, ...]:
    """Return the first lines of an output that cannot be read."""
    return tuple(line.strip() for line in answer.text.splitlines() if line.strip())[:5]


RULES: tuple[Callable[[Evidence], Iterable[Condition]], ...] = (
    *(images, signature, installed, timer, space, members, peer),
    *(boot_variable, register, manual_boot, saved, issu, ours),
)
"""All conditions, in the order of the report."""


def judge(evidence: Evidence) -> Readiness:
    """Return the verdict with all conditions."""
    conditions = tuple(condition for rule in RULES for condition in rule(evidence))
    software = evidence.software
    return Readiness(
        verdict=_verdict(evidence, conditions),
        image=evidence.image.name,
        version=str(evidence.image_release) if evidence.image_release is not None else None,
        running=software.version.release,
        mode=software.mode.value,
        members=tuple(unit.number for unit in software.units),
        conditions=conditions,
    )


def _verdict(evidence: Evidence, conditions: tuple[Condition, ...]) -> Verdict:
    # A device that we did not restore is not ready, whatever it runs.
    is_ours = any(one.name is Asked.OURS and one.prevents_boot for one in conditions)
    if not is_ours and runs_it(evidence, conditions):
        return Verdict.RUNS_IT
    found = {one.met for one in conditions}
    if Met.NOT_MET in found:
        return Verdict.NO
    # If no rule applies, nothing was proven.
    proven = any(one.name is Asked.IMAGE and one.met is Met.MET for one in conditions)
    return Verdict.YES if proven and Met.UNKNOWN not in found else Verdict.UNKNOWN


def runs_it(evidence: Evidence, conditions: Iterable[Condition]) -> bool:
    """Return whether the device runs the image already: by release and packages, or by its proven file."""
    software, release = evidence.software, evidence.image_release
    if software.mode is Mode.INSTALL:
        committed, pending = software.versions("C"), software.versions("U", "D")
        return (
            release is not None
            and release_in(software.version.release) == release
            and not evidence.is_other_feature_set
            and len(committed) == 1
            and release_in(committed[0]) == release
            and not pending
            and (software.timer is None or software.timer.state == "inactive")
            and software.answers[Topic.INSTALL].is_read
            and not software.lacking(committed[0], "C")
            and all(release_in(member.version) == release for member in software.version.members)
        )
    if software.mode is not Mode.BUNDLE or software.running_file is None or not evidence.held:
        return False
    running = release_in(software.version.release)
    if release is not None and running is not None and running != release:
        # The file of the running image was replaced.
        return False
    path = f"{evidence.held[0].file_system}{evidence.image.name}"
    proven = all(one.met is Met.MET for one in conditions if one.name is Asked.IMAGE)
    return evidence.names.same_file(path, software.running_file) and proven
