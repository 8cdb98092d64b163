"""Checks of a run: two that always apply, and thresholds given by the operator. Pure.

*Failed*: the device is wrong. *Error*: undecidable. *Skipped*: not measured, or not applicable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.model.states import Outcome, Phase
from flashferry.reports.model import IN_PROGRESS, LEFT, NOT_STARTED, DeviceReport, Proof, Report
from flashferry.reports.words import duration, rate, share
from flashferry.tcp.verdict_rules import VerdictKind


class Status(StrEnum):
    """Result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


class Check(Struct, frozen=True, kw_only=True):
    """A check of one device; `message` states what was expected and found, with units."""

    name: str
    status: Status
    message: str = ""


class Threshold(Struct, frozen=True, kw_only=True):
    """A threshold: one of THRESHOLDS, and its limit."""

    name: str
    limit: float


class _Kind(Struct, frozen=True, kw_only=True):
    """A kind of threshold: its text with the limit, its check of a device, and whether it is a share."""

    wants: Callable[[float], str]
    judge: Callable[[DeviceReport, float], tuple[Status, str]]
    is_share: bool = False


def parse_threshold(given: str) -> Threshold:
    """Parse a threshold given as `NAME=VALUE`.

    Raises:
        ConfigInvalid: The name is unknown, or the value is not a number > 0 (for a share: at most 1).
    """
    name, equals, value = (part.strip() for part in given.partition("="))
    if not equals or name not in THRESHOLDS:
        raise ConfigInvalid(
            f"--threshold: expected NAME=VALUE with one of {', '.join(THRESHOLDS)}, found {given!r}",
            hint="For example --threshold tuned_share_of_link=0.8",
        )
    most = 1.0 if THRESHOLDS[name].is_share else float("inf")
    try:
        limit = float(value)
    except ValueError:
        limit = 0.0
    if not 0 < limit <= most or limit == float("inf"):
        example = "0.8" if most == 1.0 else "10"
        range_ = "a share above 0, at most 1" if most == 1.0 else "a number above 0"
        raise ConfigInvalid(
            f"--threshold {name}: expected {range_}, found {value!r}",
            hint=f"For example --threshold {name}={example}",
        )
    return Threshold(name=name, limit=limit)


def checks_of(device: DeviceReport, verb: str, thresholds: Sequence[Threshold]) -> tuple[Check, ...]:
    """Return the checks of a device; their order only depends on the thresholds."""
    reader = {"stage": _image, "probe": _measured, "activate": _activated}.get(verb)
    first = [reader(device)] if reader is not None else []
    return (*first, _configuration(device), *(_held(device, threshold) for threshold in thresholds))


def worst(report: Report, thresholds: Sequence[Threshold]) -> Status:
    """Return the most severe result of all checks: failed, error, passed; skipped counts as passed."""
    found = {check.status for device in report.devices for check in checks_of(device, report.verb, thresholds)}
    return next((status for status in (Status.FAILED, Status.ERROR) if status in found), Status.PASSED)


def _image(device: DeviceReport) -> Check:
    name = "image verified"
    if device.phase is Phase.DONE:
        return Check(name=name, status=Status.PASSED)
    return _not_done(name, device)


def _activated(device: DeviceReport) -> Check:
    name = "image runs"
    if device.phase is Phase.DONE:
        return Check(name=name, status=Status.PASSED)
    return _not_done(name, device)


def _measured(device: DeviceReport) -> Check:
    name = "speed measured"
    if device.as_is is not None or device.tuned is not None:
        return Check(name=name, status=Status.PASSED)
    return _not_done(name, device)


def _not_done(name: str, device: DeviceReport) -> Check:
    if device.outcome in {NOT_STARTED, IN_PROGRESS}:
        return Check(name=name, status=Status.SKIPPED, message=device.label)
    reason = f"{device.step}: {device.reason}" if device.reason else f"the run says no more than '{device.label}'"
    wrong = device.outcome in {Outcome.FAILED, Outcome.REFUSED}
    return Check(name=name, status=Status.FAILED if wrong else Status.ERROR, message=reason)


def _configuration(device: DeviceReport) -> Check:
    name, found = "configuration restored", device.restore
    if found.proof in {Proof.PROVEN, Proof.UNTOUCHED}:
        return Check(name=name, status=Status.PASSED)
    seen = [found.label, *found.foreign, found.running_difference, found.failure]
    message = "; ".join(part for part in seen if part)
    if found.proof is Proof.IN_PROGRESS or found.is_accepted:
        return Check(name=name, status=Status.SKIPPED, message=message)
    # The configuration of a dead run's device is unknown, as is one that the journal does not describe.
    is_wrong = found.proof is Proof.FOREIGN or (found.proof is Proof.NOT_PROVEN and device.outcome != LEFT)
    return Check(name=name, status=Status.FAILED if is_wrong else Status.ERROR, message=message)


def _held(device: DeviceReport, threshold: Threshold) -> Check:
    kind = THRESHOLDS[threshold.name]
    condition = kind.wants(threshold.limit)
    status, seen = kind.judge(device, threshold.limit)
    message = seen if status is Status.SKIPPED else f"expected {condition}, found {seen}"
    return Check(name=condition, status=status, message="" if status is Status.PASSED else message)


def _at_least(value: float, limit: float, seen: str) -> tuple[Status, str]:
    return (Status.PASSED if value >= limit else Status.FAILED), seen


def _share_of_link(device: DeviceReport, limit: float) -> tuple[Status, str]:
    if device.tuned is None or device.link_bytes_per_s is None:
        return _missing(device, "tuned speed" if device.tuned is None else "link rate")
    part = device.tuned.bytes_per_s / device.link_bytes_per_s
    last = device.transfers[-1] if device.transfers else None
    cap = last.cap_bytes_per_s if last else None
    was_capped = last is not None and last.verdict is not None and last.verdict.kind == VerdictKind.CAP
    if part < limit and was_capped and cap is not None and cap <= limit * device.link_bytes_per_s:
        return Status.SKIPPED, (
            f"our own cap of {rate(cap)} was the limit, no more than {share(limit)} of the link: the copy shared it "
            "with others, or the inventory's cap_share is lower. Use tuned_share_of_cap"
        )
    return _at_least(part, limit, f"{share(part)}: {rate(device.tuned.bytes_per_s)} of {rate(device.link_bytes_per_s)}")


def _share_of_cap(device: DeviceReport, limit: float) -> tuple[Status, str]:
    cap = device.transfers[-1].cap_bytes_per_s if device.transfers else None
    if device.tuned is None or cap is None:
        return _missing(device, "tuned speed" if device.tuned is None else "cap")
    part = device.tuned.bytes_per_s / cap
    return _at_least(part, limit, f"{share(part)}: {rate(device.tuned.bytes_per_s)} of {rate(cap)}")


def _least_rate(device: DeviceReport, limit: float) -> tuple[Status, str]:
    found = device.tuned or device.untuned
    if found is None:
        return _missing(device, "speed")
    return _at_least(found.bytes_per_s / 1e6, limit, rate(found.bytes_per_s))


def _longest(device: DeviceReport, limit: float) -> tuple[Status, str]:
    if device.total_s is None:
        return _missing(device, "duration")
    return _at_least(-device.total_s, -60 * limit, duration(device.total_s))


def _least_gain(device: DeviceReport, limit: float) -> tuple[Status, str]:
    if device.gain is None:
        return _missing(device, "gain")
    return _at_least(device.gain, limit, f"{device.gain:.1f} times")


def _most_again(device: DeviceReport, limit: float) -> tuple[Status, str]:
    found = device.transfers[-1].retransmitted_share if device.transfers else None
    if found is None:
        return _missing(device, "share sent again")
    return _at_least(-found, -limit, share(found))


def _missing(device: DeviceReport, what: str) -> tuple[Status, str]:
    return Status.SKIPPED, f"not measured: no {what}; the device's outcome is '{device.label}'"


THRESHOLDS: dict[str, _Kind] = {
    "tuned_share_of_link": _Kind(
        wants=lambda limit: f"tuned >= {share(limit)} of link", judge=_share_of_link, is_share=True
    ),
    "tuned_share_of_cap": _Kind(
        wants=lambda limit: f"tuned >= {share(limit)} of cap", judge=_share_of_cap, is_share=True
    ),
    "min_rate_mb_s": _Kind(wants=lambda limit: f"rate >= {limit:g} MB/s", judge=_least_rate),
    "max_minutes": _Kind(wants=lambda limit: f"took <= {limit:g} min", judge=_longest),
    "min_gain": _Kind(wants=lambda limit: f"tuned >= {limit:g} times as fast as before", judge=_least_gain),
    "max_retransmitted_share": _Kind(
        wants=lambda limit: f"sent again <= {share(limit)}", judge=_most_again, is_share=True
    ),
}
"""By name."""
