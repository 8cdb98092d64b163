"""What must be so before a device may boot an image, one condition each, over what a look found. Pure.

It is easy to give a false yes. So a condition is met only where a line of the device says so, what cannot be read is
unknown and never met, what a platform does not have does not apply only where the platform said so itself, and the
answer is yes only where each condition is met or does not apply. What a device boots by is in `tasks.readiness.boot`.

Facts
-----
* `install add` in install mode hands a stack's other members their packages; whether it leaves the `.bin` there was
  seen once (C9200L) and is open elsewhere: a member that `show install summary` names needs no file of its own.
* More than one inactive image leaves open which one `install activate` takes.
* A timer that runs brings back the old image whatever anybody does meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from flashferry.images.release import release_in
from tasks.file_system import file_named, free_bytes, needed_bytes
from tasks.readiness.values import Asked, Condition, Evidence, Met, Proof, Sealed
from tasks.signature import Signature
from tasks.software_state import IMAGE, STANDBY, Answer, Issu, Mode, Outcome, Topic

LEAST_ROOM_BYTES = 10_000_000
"""What activation writes besides packages: a provisioning file, logs. Our own choice; no book names a figure."""


def images(evidence: Evidence) -> Iterable[Condition]:
    """The image lies on each file system that must hold it, whole, by the hash that the device computes."""
    for held in evidence.held:
        command = held.command or held.listing.command
        name = evidence.image.name
        place = held.file_system or _spoken(held.place)

        def says(met: Met, sentence: str, *lines: str, at: str = place, by: str = command) -> Condition:
            return Condition(name=Asked.IMAGE, met=met, sentence=sentence, command=by, lines=lines, place=at)

        if not held.listing.is_read:
            yield says(Met.UNKNOWN, f"{place} cannot be listed", *_words(held.listing))
            continue
        try:
            entry = file_named(held.listing.text, name)
        except ValueError as error:
            yield says(Met.UNKNOWN, str(error))
            continue
        rows = held.listing.lines_with(name)
        if entry is None and free_bytes(held.listing.text) is None:
            yield says(Met.UNKNOWN, f"the list of {place} ends before its last line")
        elif entry is None and held.place and _is_added_at(evidence, held.place):
            yield says(
                Met.DOES_NOT_APPLY,
                f"'install add' has handed member {held.place} its packages; it needs no file of its own",
                by=evidence.software.answers[Topic.INSTALL].command,
            )
        elif entry is None or entry.name != name or entry.permissions.startswith("d"):
            yield says(Met.NOT_MET, f"{name} is not on {place}", *rows)
        elif entry.size_bytes != evidence.image.size_bytes:
            sizes = f"{entry.size_bytes} bytes, expected {evidence.image.size_bytes}"
            yield says(Met.NOT_MET, f"{place}{name} is not whole: {sizes}", *rows)
        elif held.proof is Proof.EQUAL:
            yield says(Met.MET, f"{place}{name} is the expected file", held.words)
        elif held.proof is Proof.OTHER:
            yield says(Met.NOT_MET, f"{place}{name} has another hash: {held.words}", held.words)
        else:
            yield says(Met.UNKNOWN, f"the device computed no hash of {place}{name}: {held.words}", held.words)


def signature(evidence: Evidence) -> Iterable[Condition]:
    """The vendor's signature inside the image is good, where there is one and the device can verify it."""
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
        return Met.MET, "the device vouches for the signature"
    if seal.outcome is Signature.HASH_ONLY:
        return Met.MET, "the hash inside the image is good; this release says nothing about a signature"
    if seal.outcome is Signature.REFUSED and "Not able to process Signature" in seal.words:
        return Met.DOES_NOT_APPLY, "the device finds no signature in the image, which is the published one by its hash"
    if seal.outcome is Signature.REFUSED:
        return Met.NOT_MET, f"the device does not vouch for the signature: {seal.words}"
    return Met.UNKNOWN, "the device says nothing about the signature that can be read"


def installed(evidence: Evidence) -> Iterable[Condition]:
    """In install mode each place has one committed image, and the wanted one inactive, or committed already."""
    software = evidence.software
    answer = software.answers[Topic.INSTALL]

    def says(met: Met, sentence: str, *lines: str) -> Iterable[Condition]:
        kept = lines or answer.lines_with("IMG ", "SMU ")
        return (Condition(name=Asked.INSTALLED, met=met, sentence=sentence, command=answer.command, lines=kept),)

    if software.mode is Mode.BUNDLE:
        return says(Met.DOES_NOT_APPLY, "it boots from one file, nothing is to be installed")
    if software.mode is Mode.UNKNOWN:
        return says(Met.UNKNOWN, "it does not say whether it boots from packages or from one file")
    if not answer.is_read:
        return says(Met.UNKNOWN, "what is installed cannot be read", *_words(answer))
    if evidence.wanted is None:
        return says(Met.UNKNOWN, f"the name of {evidence.image.name} does not tell its release")
    places = tuple(dict.fromkeys(place for row in software.packages for place in row.places))
    lacking = [str(unit.number) for unit in software.units if str(unit.number) not in places]
    if software.is_stack and lacking:
        return says(Met.UNKNOWN, f"it says nothing of member {', '.join(lacking)}")
    for place in places:
        if (wrong := _wrong_at(evidence, place)) is not None:
            return says(*wrong)
    return says(Met.MET, f"{evidence.wanted} is added everywhere ({', '.join(places)}), one image is committed")


def _wrong_at(evidence: Evidence, place: str) -> tuple[Met, str] | None:
    """Return what is wrong with the packages of one place, or None."""
    here = [row for row in evidence.software.packages if place in row.places]
    committed = [row.version for row in here if row.type == IMAGE and row.state == "C"]
    pending = [row.version for row in here if row.state in {"U", "D"}]
    inactive = [row.version for row in here if row.type == IMAGE and row.state == "I"]
    wanted, at = evidence.wanted, _spoken(place)
    if pending:
        return Met.NOT_MET, f"{pending[0]} waits to be committed on {at}"
    if len(committed) != 1:
        return Met.NOT_MET, f"expected one committed image on {at}, found {', '.join(committed) or 'none'}"
    if release_in(committed[0]) is None or any(release_in(one) is None for one in inactive):
        return Met.UNKNOWN, f"a version on {at} cannot be read as a release"
    others = [one for one in inactive if release_in(one) != wanted]
    if release_in(committed[0]) == wanted and not others:
        return None
    if others:
        return Met.NOT_MET, f"{others[0]} is added on {at}, expected {wanted}: 'install activate' may take it"
    if len(inactive) != 1:
        name = f"{evidence.held[0].file_system}{evidence.image.name}" if evidence.held else evidence.image.name
        found = "not added" if not inactive else f"added {len(inactive)} times"
        return Met.NOT_MET, f"{wanted} is {found} on {at}: 'install add file {name}'"
    return None


def _is_added_at(evidence: Evidence, place: str) -> bool:
    """Tell whether the packages of the wanted release are at a member already."""
    software, wanted = evidence.software, evidence.wanted
    return (
        software.mode is Mode.INSTALL
        and wanted is not None
        and any(
            row.type == IMAGE and row.state in {"I", "C"} and place in row.places and release_in(row.version) == wanted
            for row in software.packages
        )
    )


def timer(evidence: Evidence) -> Iterable[Condition]:
    """No timer runs that brings another image back."""
    software = evidence.software
    answer = software.answers[Topic.INSTALL]
    found, lines = software.timer, answer.lines_with("Auto abort timer")
    if software.mode is Mode.BUNDLE:
        met, sentence = Met.DOES_NOT_APPLY, "it boots from one file, there is no timer"
    elif software.mode is Mode.UNKNOWN or not answer.is_read:
        met, sentence, lines = Met.UNKNOWN, "whether a timer runs cannot be read", _words(answer)
    elif found is None:
        met, sentence = Met.DOES_NOT_APPLY, f"release {software.version.release} tells of no timer"
    elif found.state == "inactive":
        met, sentence = Met.MET, "no timer runs"
    else:
        left = f" in {found.left}" if found.left else ""
        met, sentence = Met.NOT_MET, f"a timer runs that brings the old image back{left}"
    yield Condition(name=Asked.TIMER, met=met, sentence=sentence, command=answer.command, lines=lines)


def room(evidence: Evidence) -> Iterable[Condition]:
    """There is room for what is still to be written: packages before `install add`, little afterwards."""
    for held in evidence.held:
        place = held.file_system or _spoken(held.place)
        lines = held.listing.lines_with("bytes free")
        free = free_bytes(held.listing.text) if held.listing.is_read else None
        if evidence.software.mode is Mode.BUNDLE:
            met, sentence = Met.DOES_NOT_APPLY, "it boots from the file itself, nothing more is written"
        elif free is None:
            met, sentence = Met.UNKNOWN, f"{place} does not say how much room it has"
        else:
            own = held.place or next((str(unit.number) for unit in evidence.software.units if unit.active), "R0")
            is_added = _is_added_at(evidence, own)
            needed = LEAST_ROOM_BYTES if is_added else needed_bytes(evidence.image.size_bytes)
            what = "activation" if is_added else "'install add'"
            met = Met.MET if free >= needed else Met.NOT_MET
            sentence = f"{place} has {free} bytes free, {what} needs {needed}"
        yield Condition(
            name=Asked.ROOM, met=met, sentence=sentence, command=held.listing.command, lines=lines, place=place
        )


def members(evidence: Evidence) -> Iterable[Condition]:
    """All members of a stack are there and ready."""
    software = evidence.software
    answer = software.answers[Topic.STACK]
    numbers = {unit.number for unit in software.units}
    booted = {member.number for member in software.version.members}
    expected = set(evidence.expected_members or ())
    away = [unit for unit in software.units if unit.state != "Ready"]
    lines = tuple(line for unit in software.units for line in answer.lines_with(unit.mac))
    if answer.outcome is Outcome.NOT_THERE and not software.is_stack and not expected:
        met, sentence = Met.DOES_NOT_APPLY, "it is no stack"
    elif not answer.is_read:
        met, sentence, lines = Met.UNKNOWN, "the members cannot be read", _words(answer)
    elif away:
        met, sentence = Met.NOT_MET, f"member {away[0].number} is '{away[0].state}', expected 'Ready'"
    elif lost := sorted((booted | expected) - numbers):
        met, sentence = Met.NOT_MET, f"member {lost[0]} is gone"
    elif expected and numbers - expected:
        met, sentence = Met.NOT_MET, f"member {min(numbers - expected)} is new since the image was staged"
    elif booted and numbers - booted:
        met, sentence = Met.UNKNOWN, f"'show version' does not know member {min(numbers - booted)}"
    else:
        met, sentence = (
            Met.MET,
            f"all {len(numbers)} members are ready" if len(numbers) > 1 else "its one switch is ready",
        )
    yield Condition(name=Asked.MEMBERS, met=met, sentence=sentence, command=answer.command, lines=lines)


def peer(evidence: Evidence) -> Iterable[Condition]:
    """The other supervisor, or standby switch, is hot; or there is none."""
    software = evidence.software
    answer, found = software.answers[Topic.REDUNDANCY], software.redundancy
    has_other = software.is_stack or any(one.place == STANDBY for one in software.boot)
    has_standby_role = any(unit.role == "Standby" for unit in software.units)
    lines = answer.lines_with("my state", "peer state", "Mode =")
    if (
        answer.outcome is Outcome.NOT_THERE
        and not has_standby_role
        and not any(one.place == STANDBY for one in software.boot)
    ):
        met, sentence = Met.DOES_NOT_APPLY, "the platform knows no standby"
    elif found is None:
        met, sentence, lines = Met.UNKNOWN, "the state of the supervisors cannot be read", _words(answer)
    elif found.mine.upper() != "ACTIVE":
        met, sentence = Met.NOT_MET, f"the session is not at the active supervisor, which is '{found.mine}'"
    elif found.peer.upper() == "STANDBY HOT":
        met, sentence = Met.MET, "the standby is hot"
    elif found.mode.casefold() == "simplex" and found.peer.upper() == "DISABLED" and not has_other:
        met, sentence = Met.MET, "there is no standby"
    else:
        met, sentence = Met.NOT_MET, f"the standby is '{found.peer}', expected 'STANDBY HOT'"
    yield Condition(name=Asked.PEER, met=met, sentence=sentence, command=answer.command, lines=lines)


def saved(evidence: Evidence) -> Iterable[Condition]:
    """Running and startup configuration agree: what is not saved is lost in the reload."""
    found = evidence.configuration
    if found is None or found.saved is None:
        met, sentence = Met.UNKNOWN, "whether the configuration is saved cannot be told"
    elif found.saved:
        met, sentence = Met.MET, "the running configuration is saved"
    else:
        met, sentence = Met.NOT_MET, next(iter(found.notes))
    yield Condition(name=Asked.SAVED, met=met, sentence=sentence, command=evidence.compared_by)


def issu(evidence: Evidence) -> Iterable[Condition]:
    """No upgrade in service is going on."""
    answer = evidence.software.answers[Topic.ISSU]
    lines = answer.lines_with("ISSU", "Slot being modified", "Last operation", "Rollback:")
    met, sentence = {
        Issu.IDLE: (Met.MET, "none is going on"),
        Issu.GOING_ON: (Met.NOT_MET, "an upgrade in service is going on, or waits to be committed"),
        Issu.NOT_THERE: (Met.DOES_NOT_APPLY, "the platform tells of none"),
        Issu.UNKNOWN: (Met.UNKNOWN, "whether one is going on cannot be read"),
    }[evidence.software.issu]
    yield Condition(name=Asked.ISSU, met=met, sentence=sentence, command=answer.command, lines=lines or _words(answer))


def ours(evidence: Evidence) -> Iterable[Condition]:
    """Neither a line nor an applet of ours is left, in either configuration, nor by the journal."""
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


def _words(answer: Answer) -> tuple[str, ...]:
    """Return the beginning of what a device said that cannot be read."""
    return tuple(line.strip() for line in answer.text.splitlines() if line.strip())[:5]
