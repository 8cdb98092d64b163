"""docs/plan.md's table of settings, from the settings themselves."""

from __future__ import annotations

from flashferry.model.policy import settings
from flashferry.model.setting import Setting
from tests.house.modules import ROOT

PLAN_PAGE = ROOT / "docs" / "plan.md"
_HEAD = "| settings | `plan` | on resume | at a service |\n|---|---|---|---|\n"


def with_settings_table(page: str) -> str:
    """Return the page with the table that stands below its heading "Settings of a run" as the settings have it."""
    before, heading, rest = page.partition("## Settings of a run\n\n")
    return before + heading + _HEAD + _rows() + "\n" + rest.partition("\n\n")[2]


def _rows() -> str:
    """Return a row for all settings that are alike in where they may be given; `--help-all` has their meanings."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in settings().values():
        takes = "carried" if one.label else "taken" if one.in_plans else "-"
        when = "as it was" if one.is_settled else "may change"
        alike.setdefault((takes, when, one.at_service.value.replace("never", "-")), []).append(_shown(one))
    return "".join(f"| {', '.join(names)} | {' | '.join(cells)} |\n" for cells, names in alike.items())


def _shown(one: Setting) -> str:
    """Return the option, and the name in plans and programs where it is another word."""
    options = one.option.split("/")
    shown = ", ".join(f"`{option}`" for option in options)
    return shown if options[0].lstrip("-").replace("-", "_") == one.name else f"{shown} (`{one.name}`)"
