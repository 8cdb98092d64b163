"""What the product's own JSON documents come to for a night: copies, failures, and whose fault they are. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from flashferry.core.errors import Kind
from flashferry.core.safe_quote import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.states import GOOD_OUTCOMES, Outcome, Restored
from flashferry.nightly.backend import PlannedNode
from flashferry.nightly.faults import Fault, NightFault
from flashferry.nightly.night import NightCopy, NightFigure

Document = Mapping[str, Any]
"""A JSON document of the product, as `json.loads` returns it."""


_UNRESTORED = frozenset({Restored.INCOMPLETE.value, Restored.FOREIGN_CHANGE.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What the product says went wrong with a router.

    Attributes:
        host: The router.
        outcome: Its outcome, by the product's word.
        kind: The kind of its failure; empty where it names none.
        reason: Why, in words.
        hint: What the product advises; may be empty.
        is_unrestored: Whether its configuration is not proven to be what it was.
    """

    host: str
    outcome: str
    kind: str
    reason: str
    hint: str
    is_unrestored: bool


def devices_of(document: Document) -> tuple[Document, ...]:
    """Return the devices of a document of any verb over a fleet; none of one that reports an error."""
    run = document.get("run")
    found = (run if isinstance(run, dict) else document).get("devices", ())
    return tuple(one for one in found if isinstance(one, dict))


def troubles(document: Document) -> tuple[Trouble, ...]:
    """Return what went wrong, router by router."""
    return tuple(_troubles(document))


def _troubles(document: Document) -> Iterator[Trouble]:
    for device in devices_of(document):
        failure = device.get("failure") or device.get("restore_failure") or {}
        is_unrestored = device.get("restored") in _UNRESTORED
        outcome = str(device.get("outcome") or ("failed" if failure or is_unrestored else "done"))
        if outcome in GOOD_OUTCOMES and not is_unrestored:
            continue
        yield Trouble(
            host=str(device.get("host", "")),
            outcome=outcome,
            kind=str(failure.get("kind") or ""),
            reason=str(failure.get("reason") or device.get("restored") or outcome),
            hint=str(failure.get("hint") or ""),
            is_unrestored=is_unrestored,
        )


_DEVICE_KINDS = frozenset({Kind.DEVICE_REFUSED.value, Kind.LOGIN_REFUSED.value, Kind.POLICY_VIOLATION.value})


def check_ended_well(step: str, exit_code: int, document: Document, said: str) -> None:
    """Check that a verb of the product ended as it must.

    Args:
        step: The night's step.
        exit_code: Its exit code; below zero: ended by that signal.
        document: Its JSON document; empty where it printed none.
        said: What it said on standard error, for where there is no document.

    Raises:
        NightFault: It did not: `Fault.DEVICE` where devices are refused, else `Fault.PRODUCT`.
    """
    if exit_code == ExitCode.OK:
        return
    found = troubles(document)
    first = found[0] if found else None
    is_device = exit_code == ExitCode.REFUSED or (
        exit_code == ExitCode.DEVICES_FAILED and bool(found) and all(one.kind in _DEVICE_KINDS for one in found)
    )
    more = f", and {counted(len(found) - 1, 'router')} more" if len(found) > 1 else ""
    reason = f"{first.reason}{more}" if first else str(document.get("error") or "") or _last_line(said)
    advice = "" if first is None else f"{first.hint.rstrip('.')}. " if first.hint else ""
    raise NightFault(
        f"'flashferry {step}' ended with {_code(exit_code)}: {reason}",
        fault=Fault.DEVICE if is_device else Fault.PRODUCT,
        step=step,
        hint=f"{advice}The step's report and events are in the night's folder",
        host=first.host if first else None,
        is_unrestored=exit_code == ExitCode.RESTORE_INCOMPLETE or any(one.is_unrestored for one in found),
    )


def _code(exit_code: int) -> str:
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"


def _last_line(said: str) -> str:
    return next((line for line in reversed(said.splitlines()) if line.strip()), "it said nothing")[:300]


def copies_of_probe(document: Document, nodes: Mapping[str, PlannedNode]) -> tuple[NightCopy, ...]:
    """Return the timed copies of a speed test, untuned and tuned; one that was too short to carry a rate is none."""
    return tuple(_probed(document, nodes))


def _probed(document: Document, nodes: Mapping[str, PlannedNode]) -> Iterator[NightCopy]:
    for device in devices_of(document):
        node, probe = nodes.get(str(device.get("host"))), device.get("probe")
        if node is None or not probe:
            continue
        gain = (probe.get("worth") or {}).get("gain")
        for name in ("as_is", "tuned"):
            arm = probe.get(name)
            if arm and not arm.get("too_short"):
                is_tuned = name == "tuned"
                yield NightCopy(
                    **named(node),
                    transport=str(device.get("transport") or ""),
                    verb="probe",
                    is_tuned=is_tuned,
                    rate_bytes_per_s=float(arm["steady_bytes_per_s"]),
                    duration_s=float(arm["duration_s"]),
                    verdict=_verdict(arm),
                    gain=float(gain) if is_tuned and gain is not None else None,
                    cap_bytes_per_s=_cap(arm),
                )


def copies_of_stage(document: Document, nodes: Mapping[str, PlannedNode]) -> tuple[NightCopy, ...]:
    """Return the copies to flash of a run that were delivered."""
    return tuple(
        NightCopy(
            **named(node),
            transport=str(device.get("transport") or ""),
            verb="stage",
            is_tuned=bool(device.get("tune")),
            rate_bytes_per_s=float(transfer["rate_bytes_per_s"]),
            duration_s=float(transfer["duration_s"]),
            verdict=_verdict(transfer),
            cap_bytes_per_s=_cap(transfer),
        )
        for device in devices_of(document)
        if (node := nodes.get(str(device.get("host")))) is not None
        and device.get("outcome") == Outcome.DONE.value
        and (transfer := device.get("transfer"))
    )


_TIMED: tuple[Literal["connect", "verify"], ...] = ("connect", "verify")
"""Steps of the product whose seconds nights are compared by."""


def figures_of(document: Document, nodes: Mapping[str, PlannedNode]) -> tuple[NightFigure, ...]:
    """Return what a run's routers took to be logged in to and to hash the image, in seconds."""
    return tuple(
        NightFigure(**named(node), what=what, value=float(seconds[what]))
        for device in devices_of(document)
        if (node := nodes.get(str(device.get("host")))) is not None
        and device.get("outcome") == Outcome.DONE.value
        and (seconds := device.get("seconds_by_step"))
        for what in _TIMED
        if what in seconds
    )


def _cap(measured: Document) -> float | None:
    """Return what our server held a copy to, or None."""
    sender = measured.get("sender") or {}
    found = [one for one in (sender.get("cap_bytes_per_s"), sender.get("pace_bytes_per_s")) if one]
    return float(min(found)) if found else None


def named(node: PlannedNode) -> dict[str, Any]:
    """Return a router by the fields of `flashferry.nightly.night.MeasuredNode`."""
    return {
        "node": node.label,
        "node_definition": node.node_definition,
        "image_definition": node.image_definition,
        "condition": node.condition_name,
    }


def _verdict(measured: Document) -> str:
    return str((measured.get("verdict") or {}).get("kind") or "")
