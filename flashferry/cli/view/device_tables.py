"""Tables for people: results of a check, run, rehearsal or recovery by device."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.terminal.output import command, echo
from flashferry.cli.view.activation_table import print_activation
from flashferry.cli.view.layout import (
    BAD,
    GOOD,
    STYLES,
    WARN,
    alike,
    console,
    line,
    outcome,
    print_error,
    rate,
    restored,
    show,
)
from flashferry.core.units import counted, duration, link_rate, megabytes, milliseconds
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.model.states import ACCEPTED_LABEL, GOOD_OUTCOMES, Outcome, Restored
from flashferry.reports.facts import record_facts
from flashferry.reports.words import (
    failure_sentence,
    line_families,
    lost_copy_sentence,
    partial_file_sentence,
    refused_window_sentence,
    running_sentence,
    startup_sentence,
    transport_tried_sentence,
    unproven_sentence,
)
from inventory.transport_policy import USUAL
from tasks.fetch_check import announce, should_announce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from flashferry.model.probe_result import Connectivity
    from flashferry.model.record import DeviceRecord, Failure, RunReport
    from flashferry.planning.inspection import CheckRecord
    from flashferry.run.dry_run import DryRecord
    from flashferry.run.recover import RecoveryRecord
    from tasks.check import CheckReport
    from tasks.restore import RestoreReport
    from tasks.tcp_config import TunePlan

FEW = 5
"""Number of devices up to which everything is shown."""

MOST_ROWS = 60

MOST_DETAILED = 10

_FINE = GOOD_OUTCOMES | {Outcome.NOT_STARTED}

_LEFT = frozenset({Outcome.NOT_STARTED, Outcome.INTERRUPTED})


def in_order(devices: Sequence[DeviceRecord]) -> tuple[DeviceRecord, ...]:
    """Return the devices of a large run with those that need attention first; a small run's order is unchanged."""
    return tuple(devices) if len(devices) <= FEW else tuple(sorted(devices, key=_urgency))


def rows_of(devices: Sequence[DeviceRecord]) -> tuple[DeviceRecord, ...]:
    """Return the devices to print: as many as fit, and always those that need attention."""
    ordered = in_order(devices)
    return ordered[: max(MOST_ROWS, sum(needs_attention(device) for device in ordered))]


def print_details(report: RunReport, evidence: Callable[[DeviceRecord], None], *, is_kept: bool = True) -> None:
    """Print details by device: all of a small run, else those that need attention.

    Args:
        report: The run.
        evidence: Prints the measurements and proofs of one device.
        is_kept: Whether the run is in a journal, so that a report can be read later.
    """
    ordered = in_order(report.devices)
    few = len(ordered) <= FEW
    urgent = [device for device in ordered if few or needs_attention(device)]
    for device in urgent if few else urgent[:MOST_DETAILED]:
        evidence(device)
    if not few and len(urgent) > MOST_DETAILED:
        console().print(f"and {counted(len(urgent) - MOST_DETAILED, 'device')} more that need attention")
    alike((str(fact), device.host) for device in ordered for fact in record_facts(device))
    alike((note, device.host) for device in ordered for note in device.notes)
    alike(((_sentence(why), device.host) for device in urgent for why in _complaints(device)), BAD)
    if not few:
        calm = [device for device in ordered if not needs_attention(device)]
        alike((_sentence(why), device.host) for device in calm for why in _complaints(device))
    _print_end(report, few=few, is_kept=is_kept)


def needs_attention(device: DeviceRecord) -> bool:
    """Return whether a device needs attention; one that was not started does not."""
    restore = device.restore
    return (
        device.outcome not in _FINE
        or device.restored in {Restored.INCOMPLETE, Restored.FOREIGN_CHANGE}
        or (device.partial_file is not None and not device.partial_removed)
        or (restore is not None and bool(restore.foreign or restore.startup_changed))
    )


def _urgency(device: DeviceRecord) -> int:
    if device.restored is Restored.INCOMPLETE:
        return 0
    if needs_attention(device):
        return 1
    return 2 if device.outcome is Outcome.NOT_STARTED else 3


def _complaints(device: DeviceRecord) -> list[Failure]:
    return [why for why in (device.failure, device.restore_failure) if why is not None]


def _sentence(why: Failure) -> str:
    return failure_sentence(why.step, why.reason, why.hint)


def _print_end(report: RunReport, *, few: bool, is_kept: bool) -> None:
    """Print the totals, why the run ended early, how to continue it, and where the details are."""
    counts = Counter(device.outcome.phase for device in report.devices)
    if (without_row := len(report.devices) - len(rows_of(report.devices))) > 0:
        console().print(f"and {counted(without_row, 'device')} more that ended well or were not started")
    if not few:
        text = ", ".join(f"{count} {phase.label}" for phase, count in counts.most_common())
        console().print(f"{counted(len(report.devices), 'device')}: {text}")
    if report.stopped:
        console().print(f"the run started nothing new: {report.stopped}", style=BAD)
    if not is_kept:
        return
    if report.verb == "stage" and any(one.outcome in _LEFT and not one.is_left_by_plan for one in report.devices):
        console().print(f"resume with: {command(f'stage --resume {report.run_id}')}", style=BAD)
    console().print(f"report: {command(f'report {report.run_id}')}")


_SHA512 = "/sha512"

_UNSURE = "image unsure"


def facts_line(found: CheckReport) -> str:
    """Return boot mode, members, configuration, privilege and proof in one line."""
    mode = "install mode" if found.version.install_mode else "bundle mode"
    parts = [mode if found.version.image_path else "boot mode unknown"]
    if len(found.version.members) > 1:
        space = ", ".join(f"{one.file_system} {megabytes(one.free_bytes)} free" for one in found.members)
        parts.append(f"stack of {len(found.version.members)}" + (f" ({space})" if space else ""))
    if found.configuration is not None:
        saved = {True: "saved", False: "not saved", None: "saved or not: unknown"}[found.configuration.saved]
        parts.append(f"configuration {saved}")
    if found.authorization is not None and found.authorization.level is not None:
        parts.append(f"privilege {found.authorization.level}")
    if found.proof is not None:
        proof = found.proof
        speed = f", {proof.hash_bytes_per_s / 1e6:.1f} MB/s" if proof.hash_bytes_per_s else ""
        parts.append(f"image there, {proof.algorithm} proven in {proof.duration_s:.1f} s{speed}")
    return "; ".join(parts)


def print_checks(records: tuple[CheckRecord, ...]) -> None:
    """Print the result of each device's check, with notes and facts that have no column."""
    show((_check_row(record) for record in records), wide_only=frozenset({"file system"}))
    for record in records:
        if record.check is not None:
            present = "; ".join(record.check.running.lines)
            line(record.host, f"lines that staging may set: {present or 'none (defaults)'}")
            if should_announce(record.check.ceilings):
                line(record.host, announce(record.check.ceilings))
        for reached in record.reaches:
            _print_reach(record.host, reached, is_alone=len(record.reaches) == 1)
        for text in record.not_tried:
            line(record.host, text)
        print_error(record.host, record.failure)
    for record in records:
        if record.check is not None:
            console().print(f"{record.host}: {facts_line(record.check)}")
    checked = [(record.host, record.check) for record in records if record.check is not None]
    alike(((f"note: {note}", host) for host, found in checked for note in found.notes), WARN)
    _print_check_sum(records)


def _print_check_sum(records: tuple[CheckRecord, ...]) -> None:
    """Print how many devices had which outcome, and the command that comes next."""
    counts = Counter(str(outcome(record.outcome, done=_fit_word(record.check))) for record in records)
    good = sum(record.outcome.is_good for record in records)
    sums = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    console().print(f"{counted(len(records), 'device')}: {sums}", style=GOOD if good == len(records) else BAD)
    if _UNSURE in counts:
        console().print(f"{_UNSURE}: staging is not refused, for no platform is known of the image: check it yourself")
    has_image = any(record.check is not None and record.check.image is not None for record in records)
    if good and has_image:
        console().print("next: 'flashferry stage' or 'flashferry plan' with the same inventory and --image")
    elif good:
        console().print("next: 'flashferry check --image FILE' checks whether an image fits, and its space")
    else:
        console().print("next: mend what is reported above, then check again")


def _check_row(record: CheckRecord) -> dict[str, str | Text]:
    found = record.check
    return {
        "device": record.host,
        "model": found.facts.model if found else "-",
        "release": found.version.release if found else "-",
        "file system": found.file_system if found else "-",
        "free": megabytes(found.free_bytes) if found and found.free_bytes is not None else "-",
        "RTT": milliseconds(found.rtt_s) if found and found.rtt_s else "-",
        "result": outcome(record.outcome, done=_fit_word(found)),
    }


def _fit_word(found: CheckReport | None) -> str:
    """Return `fit`, or a warning word if the device's image may be for another platform."""
    is_known = found is None or found.image is None or found.image.fits == "of this platform"
    return "fit" if is_known else _UNSURE


def _print_reach(host: str, found: Connectivity, *, is_alone: bool) -> None:
    by = "" if found.transport == USUAL and is_alone else f" by {found.transport}"
    if found.report.copied is not None:
        took = f"{found.report.copied.size_bytes:,} bytes in {found.report.copied.duration_s:.3f} s"
        rtt = f", round trip {milliseconds(found.rtt_s)}" if found.rtt_s else ""
        mode = f", {found.mode or 'unknown'} mode" if found.transport == USUAL else ""
        line(host, f"reaches us{by}: {took}{mode}, from {found.report.came_from}{rtt}")
    elif not is_alone:
        line(host, f"does not reach us{by}: {found.report.sentence}", BAD)
    if found.syn is not None:
        line(host, f"its SYN{by}: {found.syn.describe()}")


def print_run(report: RunReport, *, is_kept: bool = True) -> None:
    """Print a line per device of a run, what needs action, and where the details are.

    Args:
        report: The run.
        is_kept: Whether the run is in a journal, so that more can be read later.
    """
    _print_images(report)
    ordered = in_order(report.devices)
    show(map(_short_row, rows_of(report.devices)))
    alike(((why.hint, one.host) for one in ordered for why in _complaints(one) if why.hint), BAD)
    alike(((text, device.host) for device in ordered for text in _left_sentences(device)), BAD)
    _print_end(report, few=False, is_kept=is_kept)


def _short_row(device: DeviceRecord) -> dict[str, str | Text]:
    """Return a device's row: the copy's rate, or why there was none."""
    seen, took_s = device.transfer, sum(device.seconds_by_step.values())
    texts = [f"{why.step}: {why.reason}" for why in _complaints(device)]
    if not texts:
        texts = [rate(seen.rate_bytes_per_s)] if seen else ["hash proven"] if device.outcome.is_good else []
    if device.restored not in {Restored.RESTORED, Restored.UNTOUCHED}:
        texts.append(f"configuration {device.restored.label}")
    return {
        "device": device.host,
        "result": outcome(device.outcome),
        "took": duration(took_s) if took_s else "-",
        "copied at, or why not": "; ".join(texts) or "-",
    }


def _left_sentences(device: DeviceRecord) -> Iterator[str]:
    """Yield what a run left on a device, with the command that removes or restores it."""
    if device.partial_file is not None:
        yield partial_file_sentence(device.partial_file, device.partial_advice, is_removed=device.partial_removed)
    if device.restored is Restored.INCOMPLETE:
        yield unproven_sentence("stage")
    if device.restore is not None:
        yield from map(str, device.restore.foreign)
        if device.restore.startup_changed:
            yield startup_sentence(line_families(change.ours for change in device.changes), is_equal=False)


def print_run_details(
    report: RunReport, as_is_bytes_per_s: Mapping[str, float] | None = None, *, is_kept: bool = True
) -> None:
    """Print each device's result with measurements and proofs.

    Args:
        report: The run.
        as_is_bytes_per_s: Speed before tuning by device, from an earlier speed test; empty: no such column.
        is_kept: See `print_run`.
    """
    _print_images(report)
    rows = [_run_row(device, as_is_bytes_per_s) for device in rows_of(report.devices)]
    if all(device.transport == USUAL for device in report.devices):
        # Leave out columns whose cells are all equal.
        rows = [{key: cell for key, cell in row.items() if key != "by"} for row in rows]
    show(rows, wide_only=frozenset({"server says", "link limit", "took"}))
    print_details(report, _print_evidence, is_kept=is_kept)


def _print_images(report: RunReport) -> None:
    if not report.images:
        console().print(f"run {report.run_id}: {report.image}")
    for image in report.images:
        console().print(f"run {report.run_id}: {image.name}, {image.size_bytes:,} bytes, MD5 {image.md5}")


def _run_row(device: DeviceRecord, as_is_bytes_per_s: Mapping[str, float] | None) -> dict[str, str | Text]:
    seen = device.transfer
    was: dict[str, str | Text] = {"as it was": rate(as_is_bytes_per_s.get(device.host))} if as_is_bytes_per_s else {}
    link = payload_cap_bytes_per_s(device.link_rate.rate_bps) if device.link_rate else None
    return {
        "device": device.host,
        "result": outcome(device.outcome),
        "by": device.transport,
        **was,
        "router says": rate(device.pull.device.rate_bytes_per_s) if device.pull else "-",
        "server says": rate(seen.rate_bytes_per_s if seen else None),
        "link limit": rate(link),
        "verdict": seen.verdict.kind.value if seen else "-",
        # Both successful outcomes require the hash that the device computed, in this run or before.
        "hash": "proven" if device.verify or device.outcome.is_good else "-",
        "config": restored(device.restored),
        "took": f"{sum(device.seconds_by_step.values()):.1f} s",
    }


def print_recovery(records: tuple[RecoveryRecord, ...]) -> None:
    """Print the result of a recovery."""
    if not records:
        console().print("nothing to recover: no dead run left a device tuned")
        return
    has_activation = any(record.activation is not None for record in records)
    show(_recovery_row(record, has_activation=has_activation) for record in records)
    for record in records:
        if record.restore is not None:
            line(record.host, f"sent: {'; '.join(record.restore.commands) or 'nothing'}")
            line(record.host, running_sentence(str(record.restore.running_difference or "")))
            if record.restore.applet_was_gone:
                line(
                    record.host,
                    "its applet is not there: where it ran by itself, a line that a colleague entered where ours stood "
                    "is gone too, and nothing on the device shows it; %SYS-5-CONFIG_I has who entered lines when",
                    BAD,
                )
            _print_foreign(record.host, record.restore, line_families(record.restore.commands))
        if record.partial_file is not None:
            again = f"'flashferry stage --resume {record.run_id}'"
            what = "has it hashed and keeps it if it is the image; it removes a broken one with --remove-partial"
            line(record.host, f"on its flash: {record.partial_file}. {again} {what}", BAD)
        if record.activation is not None:
            print_activation(record.host, record.activation)
        print_error(record.host, record.failure)


def _recovery_row(record: RecoveryRecord, *, has_activation: bool) -> dict[str, str | Text]:
    ended = record.activation.outcome if record.activation is not None else None
    activation: dict[str, str | Text] = {
        "activation": Text(ended.value, style=GOOD if ended.is_good else BAD) if ended is not None else "-"
    }
    return {
        "device": record.host,
        "run": record.run_id,
        **(activation if has_activation else {}),
        "configuration": Text(ACCEPTED_LABEL, style=WARN)
        if record.is_accepted
        else Text(record.restored.label, style=STYLES[record.restored.tone]),
    }


def _print_evidence(device: DeviceRecord) -> None:
    for tried in device.transports_tried:
        line(device.host, transport_tried_sentence(tried.transport, tried.reason, tried.hint))
    seen = device.transfer
    if seen is not None:
        if seen.data_syn is not None:
            line(device.host, f"the device's SYN: {seen.data_syn.describe()}")
        cap = seen.sender.cap_bytes_per_s
        limit = f", capped at {rate(cap)} ({seen.sender.cap_source})" if cap else ""
        line(device.host, f"server: {rate(seen.rate_bytes_per_s)}, {seen.sender.congestion_control}{limit}")
        if device.link_rate is not None:
            line(device.host, f"link: {link_rate(device.link_rate.rate_bps)}, {device.link_rate.source}")
        line(device.host, f"verdict: {seen.verdict.sentence} {seen.verdict.advice}".rstrip())
    if device.clocks is not None and device.clocks.disagreement:
        line(device.host, device.clocks.disagreement)
    for found in device.reconciled:
        line(device.host, lost_copy_sentence(found.reason, found.decision.value))
    for refused in device.tune.refused if device.tune is not None else ():
        line(device.host, refused_window_sentence(refused))
    for change in device.changes if device.tune is not None else ():
        assert device.tune is not None
        shown = "" if change.ours not in device.tune.not_shown else " (taken, but not shown by the device)"
        line(device.host, f"set for the copy: {change.ours}{shown}; before: {change.before or '(default)'}")
    if device.window is not None and device.changes:
        line(device.host, f"window: {device.window.reason}")
    _print_proof(device)


def _print_proof(device: DeviceRecord) -> None:
    if device.restore is not None:
        line(device.host, f"proof: {running_sentence(str(device.restore.running_difference or ''))}")
        _print_foreign(device.host, device.restore, line_families(change.ours for change in device.changes))
    if device.partial_file is not None:
        left = partial_file_sentence(device.partial_file, device.partial_advice, is_removed=device.partial_removed)
        line(device.host, left, BAD)
    if device.restored is Restored.INCOMPLETE and device.restore is None:
        line(device.host, unproven_sentence("stage"), BAD)


def _print_foreign(host: str, found: RestoreReport, families: str) -> None:
    for change in found.foreign:
        line(host, str(change), BAD)
    if found.startup_changed:
        line(host, startup_sentence(families, is_equal=False), BAD)


def print_dry_run(records: tuple[DryRecord, ...]) -> None:
    """Print what a run would send to each device, in order."""
    for record in records:
        for text in _dry_lines(record):
            echo(text)
    echo("Nothing was changed.")


def _dry_lines(record: DryRecord) -> Iterator[str]:
    yield f"{record.host}: {_dry_summary(record)}"
    yield from (f"  note: {note}" for note in record.notes)
    plan = record.plan
    if plan is None:
        return
    if plan.transport != USUAL:
        yield f"  ! by {plan.transport}"
    if should_announce(plan.ceilings, by=plan.transport):
        yield f"  ! {announce(plan.ceilings)}"
    if plan.window is not None:
        yield f"  ! window {plan.window.window_bytes}: {plan.window.reason}"
    if record.link_rate is not None:
        yield f"  ! link rate {link_rate(record.link_rate.rate_bps)}, {record.link_rate.source}"
    if plan.tune.commands:
        yield from _configured("set", plan.tune.commands, instead=_instead(plan.tune))
    else:
        yield "  ! no line is changed"
    yield f"  {plan.copy}"
    for typed in plan.verify:
        instead = f"    ! /md5 where the device refuses {_SHA512}" if f" {_SHA512} " in typed else ""
        yield f"  {typed}{instead}"
    if plan.restore:
        yield from _configured("restore", plan.restore)


def _instead(tune: TunePlan) -> dict[str, str]:
    """Return notes for lines that have an alternative: other SSH channel windows are tried if one is refused."""
    others = " or ".join(one.ours for one in tune.channel)
    return {
        one.ours: f"    ! {others} where the device refuses it" for one in tune.changes if one.is_channel and others
    }


def _configured(
    what: str, lines: tuple[str, ...], *, instead: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    yield f"  configure terminal    ! {what}"
    yield from (f"   {line}{instead.get(line, '')}" for line in lines)
    yield "   end"


def _dry_summary(record: DryRecord) -> str:
    if record.failure is not None:
        hint = f". {record.failure.hint}" if record.failure.hint else ""
        return f"{record.outcome.label}: {record.failure.reason}{hint}"
    if record.outcome is Outcome.ALREADY_THERE:
        return "the image is there already, hash proven; nothing would be done"
    return f"would be staged to {record.plan.target}" if record.plan else record.outcome.label
