"""docs/plan.md's table of settings, from the settings themselves."""

from __future__ import annotations

from flashferry.model.policy import settings
from flashferry.model.setting import Setting
from tests.house.modules import ROOT

PLAN_PAGE = ROOT / "docs" / "plan.md"
_HEAD = "| option | name | meaning | default | `plan` | on resume | at a service |\n|---|---|---|---|---|---|---|\n"


def with_settings_table(page: str) -> str:
    """Return the page with the table that stands below its heading "Settings of a run" as the settings have it."""
    before, heading, rest = page.partition("## Settings of a run\n\n")
    rows = "".join(_row(one) for one in settings().values())
    return before + heading + _HEAD + rows + "\n" + rest.partition("\n\n")[2]


def _row(one: Setting) -> str:
    words = ("|".join(choice.value for choice in one.choices) if one.choices else one.metavar or "").replace("|", "\\|")
    option = ", ".join(f"`{f'{name} {words}'.strip()}`" for name in one.option.split("/"))
    bounds = (
        "" if one.least is None else f", {one.least} or more" if one.most is None else f", {one.least} to {one.most}"
    )
    usual = one.usual or one.in_words(one.default if one.default != () else None)
    takes = "carried" if one.label else "taken" if one.in_plans else "-"
    cells = (
        option,
        f"`{one.name}`",
        one.help.replace("|", "\\|") + bounds,
        usual,
        takes,
        "as it was" if one.is_settled else "may change",
        one.at_service.value.replace("never", "-"),
    )
    return f"| {' | '.join(cells)} |\n"
