"""`flashferry doctor`: what this host grants, and what to do where it does not."""

from __future__ import annotations

from rich.text import Text

from flashferry.cli.lab_needs import in_words, missing_packages, way_out
from flashferry.cli.options.shared import JsonOption
from flashferry.cli.terminal.output import finish
from flashferry.cli.view.layout import ShownTable, console
from flashferry.model.exit_codes import ExitCode
from flashferry.run.host_check import Finding, look_at_host


def doctor(json: JsonOption = False) -> None:
    """Tell what this host grants: congestion controls, ports, buffers, open files, the lab."""
    findings = look_at_host(_lab_reason())
    finish("doctor", ExitCode.OK, {"findings": findings}, as_json=json, human=lambda: _print(findings))


def _lab_reason() -> str | None:
    if missing := missing_packages():
        return f"{in_words(missing)}. {way_out(missing)}"
    from flashferry.lab.namespaces import probe

    found = probe()
    return None if found.may_run else found.reason


def _print(findings: tuple[Finding, ...]) -> None:
    table = ShownTable(box=None, pad_edge=False, header_style="bold")
    for column in ("", "what", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        mark = Text("ok", style="green") if finding.is_good else Text("--", style="yellow")
        table.add_row(mark, finding.name, finding.found, finding.advice)
    console().print(table)
