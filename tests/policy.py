"""Settings of a run for tests: another value of each than the one it has."""

from __future__ import annotations

from functools import reduce

from flashferry.model.policy import PlanSettings
from flashferry.model.setting import Setting

_WORDS = {"transport": "scp", "md5": "0" * 32, "sha512": "0" * 128}


def another_value(known: Setting, settings: PlanSettings) -> object:
    """Return a value of a setting that these settings do not have."""
    value = reduce(getattr, known.path, settings)
    if known.is_flag:
        return not value
    if known.choices is not None:
        return next(one.value for one in known.choices if one.value not in (value, "all"))
    if known.name == "max_failures":
        return 3 if value != 3 else 4
    if known.least is not None:
        return known.least if value != known.least else known.least + 1
    return _WORDS[known.name]
