"""`flashferry stage --dry-run` for people: the very lines and commands, device by device."""

from __future__ import annotations

from collections.abc import Iterator

from flashferry.cli.terminal.output import echo
from flashferry.model.states import Outcome
from flashferry.run.dry_run import DryRecord

_SHA512 = "/sha512"


def print_dry_run(records: tuple[DryRecord, ...]) -> None:
    """Print what a run would send to each device, in the order in which it would."""
    for record in records:
        for text in _lines(record):
            echo(text)
    echo("Nothing was changed.")


def _lines(record: DryRecord) -> Iterator[str]:
    yield f"{record.host}: {_summary(record)}"
    yield from (f"  note: {note}" for note in record.notes)
    plan = record.plan
    if plan is None:
        return
    if plan.window is not None:
        yield f"  ! window {plan.window.window_bytes}: {plan.window.reason}"
    if record.link_rate is not None:
        yield f"  ! link rate {record.link_rate.rate_bps / 1e6:g} Mbit/s, {record.link_rate.source}"
    if plan.tune.commands:
        yield from _configured("set", plan.tune.commands)
    else:
        yield "  ! no line is changed"
    yield f"  {plan.copy}"
    for command in plan.verify:
        instead = f"    ! /md5 where the device refuses {_SHA512}" if f" {_SHA512} " in command else ""
        yield f"  {command}{instead}"
    if plan.restore:
        yield from _configured("put back", plan.restore)


def _configured(what: str, lines: tuple[str, ...]) -> Iterator[str]:
    yield f"  configure terminal    ! {what}"
    yield from (f"   {line}" for line in lines)
    yield "   end"


def _summary(record: DryRecord) -> str:
    if record.failure is not None:
        hint = f". {record.failure.hint}" if record.failure.hint else ""
        return f"{record.outcome.value}: {record.failure.reason}{hint}"
    if record.outcome is Outcome.ALREADY_THERE:
        return "the image is there already, hash proven; nothing would be done"
    return f"would be staged to {record.plan.target}" if record.plan else record.outcome.value
