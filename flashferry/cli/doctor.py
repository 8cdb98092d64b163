"""`flashferry doctor`: what this host provides, and how to fix what is missing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rich.text import Text

from flashferry import api
from flashferry.cli.options.server import CertificateOption, KeyOption
from flashferry.cli.options.shared import DepotOption, JsonOption, StateOption
from flashferry.cli.terminal.output import finish
from flashferry.cli.view.layout import ShownTable, console
from flashferry.core.extras import extra_hint
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.api import Finding

PACKAGES = ("asyncssh", "pyroute2")
"""Names of the packages, for `import` and pip alike."""


def doctor(
    certificate: CertificateOption = None,
    key: KeyOption = None,
    depot: DepotOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Show what this host grants: congestion controls, ports, keys, buffers, open files, the lab."""
    findings = api.check_host(_lab_reason(), certificate=certificate, key=key, state=state_dir, depot=depot or "auto")
    finish("doctor", ExitCode.OK, {"findings": findings}, as_json=json, human=lambda: _print(findings))


def _lab_reason() -> str | None:
    if missing := missing_packages():
        return f"{in_words(missing)}. {extra_hint('lab')}"
    from flashferry.lab.namespaces import probe  # needs the extra `lab`

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


def missing_packages() -> tuple[str, ...]:
    """Return the packages that the lab needs and this environment lacks."""
    return tuple(name for name in PACKAGES if find_spec(name) is None)


def in_words(missing: tuple[str, ...]) -> str:
    """Return the missing packages as a sentence."""
    return f"it needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
