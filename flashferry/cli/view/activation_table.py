"""Activation for people: which devices would reload when, and afterwards what each runs."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.api.activating import LEAST_DIGEST
from flashferry.cli.view.layout import BAD, GOOD, STYLES, console, line, print_error, show
from flashferry.core.units import counted
from flashferry.model.states import Restored
from flashferry.reports.facts import fact_of

if TYPE_CHECKING:
    from flashferry.api.activating import ActivationPlan
    from flashferry.model.activation import ActivationReport
    from flashferry.model.record import DeviceRecord, RunReport


def to_be_restarted(plan: ActivationPlan) -> tuple[str, ...]:
    """Return the lines above the approval question: the rounds, with each device and its image."""
    lines = [f"plan {plan.path}", f"SHA-256 {plan.digest}"]
    for one in plan.rounds:
        number = f"round {one.number + 1}"
        lines.append(f"{number} of {len(plan.rounds)}{'' if one.name == number else f', {one.name}'}")
        by_image: dict[str, list[str]] = {}
        for host in one.hosts:
            by_image.setdefault(plan.image_of(host), []).append(host)
        lines += [f"  {image}: {', '.join(hosts)}" for image, hosts in by_image.items()]
    lines.append("each is asked whether it is ready right before, and restarted once at most")
    width = console(stderr=True).width
    return tuple(part for text in lines for part in _folded(text, width))


def _folded(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def print_activation_plan(plan: ActivationPlan) -> None:
    """Print which devices would reload when."""
    show(
        {"round": str(one.number + 1), "device": host, "site": plan.site_of(host) or "-", "image": plan.image_of(host)}
        for one in plan.rounds
        for host in one.hosts
    )
    out = console()
    out.print(f"{counted(len(plan.hosts), 'device')} in {counted(len(plan.rounds), 'round')}; nothing was changed")
    out.print(f"SHA-256 {plan.digest}")
    out.print(f"'--approve {plan.digest[:LEAST_DIGEST]}' approves it")


def print_activations(report: RunReport) -> None:
    """Print what each device runs, then notes about it."""
    show((_row(device) for device in report.devices), wide_only=frozenset({"image"}))
    for device in report.devices:
        if device.activation is not None:
            print_activation(device.host, device.activation)
        print_error(device.host, device.failure)
        print_error(device.host, device.restore_failure)
    good = [one for one in report.devices if one.outcome.is_good]
    text = f"the image runs on {len(good)} of {counted(len(report.devices), 'device')}"
    console().print(text, style=GOOD if len(good) == len(report.devices) else BAD)


def print_activation(host: str, report: ActivationReport) -> None:
    """Print the result of one device."""
    line(host, fact_of("activation", report).headline, GOOD if report.outcome.is_good else BAD)
    for text in report.lacks:
        line(host, f"lacking: {text}", BAD)
    for text in report.lines:
        line(host, text)


def _row(device: DeviceRecord) -> dict[str, str | Text]:
    done = device.activation
    running = device.readiness.running if device.readiness else None
    # Nothing was sent to an untouched device, so its version is unchanged.
    runs = done.to_release if done else running if device.restored is Restored.UNTOUCHED else None
    return {
        "device": device.host,
        "activation": Text(done.outcome.value if done else device.outcome.label, style=STYLES[device.outcome.tone]),
        "ran": (done.from_release if done else running) or "-",
        "runs": runs or ("-" if device.restored is Restored.UNTOUCHED else "not known"),
        "image": device.image or "-",
        "took": f"{sum(device.seconds_by_step.values()):.0f} s",
    }
