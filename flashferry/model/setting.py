"""Metadata of a setting, written beside the field that holds its value; see `flashferry.model.policy`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import StrEnum
from typing import Any

from msgspec import Struct

KEY = "setting"
"""Key of a field's metadata."""


class Subject(StrEnum):
    """Heading of a setting in help."""

    RUN = "Options"
    IMAGE = "Image"
    TUNING = "TCP tuning"
    SERVER = "Our server"
    WAVES = "Waves and limits"


class AtService(StrEnum):
    """When a setting is chosen at a service.

    PLAN: when the service makes the plan, so that it is approved. START: then, or when its run is started, because
    nothing that is sent to change a device depends on it.
    """

    NEVER = "never"
    PLAN = "with the plan"
    START = "with the plan or at the start"


class Setting(Struct, frozen=True, kw_only=True):
    """Metadata of a setting.

    Attributes:
        help: What it does, without default and full stop.
        subject: Heading in help.
        name: Its name everywhere; the field's name by default.
        option: Long command-line option; `--on/--off` if absent and off differ; empty derives it from the name.
        metavar: Placeholder for its value in help.
        label: Its label in a plan; empty if plans do not contain it.
        planned: Whether `flashferry plan` accepts it although plans do not contain it.
        is_settled: Whether it is fixed when the run starts, so that resuming cannot change it.
        at_service: When it is chosen at a service.
        least: Least value; None for none.
        most: Greatest value; None for none.
        usual: The default as text; empty takes the field's.
        none: Meaning of no value.
        choices: Valid words; None for any.
        read: Parses a word; None if the value is the word, number or flag itself.
        path: Fields from the policy to it; filled in by `flashferry.model.policy`.
        kind: The field's type, likewise.
        default: The field's default, likewise.
    """

    help: str
    subject: Subject = Subject.RUN
    name: str = ""
    option: str = ""
    metavar: str | None = None
    label: str = ""
    planned: bool = False
    is_settled: bool = False
    at_service: AtService = AtService.NEVER
    least: int | None = None
    most: int | None = None
    usual: str = ""
    none: str = "none"
    choices: type[StrEnum] | None = None
    read: Callable[[str], object] | None = None
    path: tuple[str, ...] = ()
    kind: Any = None
    default: object = None

    @property
    def in_plans(self) -> bool:
        """Return whether `flashferry plan` accepts it."""
        return self.planned or self.label != ""

    @property
    def is_flag(self) -> bool:
        """Return whether it is a flag."""
        return isinstance(self.default, bool) or self.kind == bool | None

    @property
    def on(self) -> str:
        """Return the option that switches it on, or takes its value."""
        return self.option.partition("/")[0]

    @property
    def off(self) -> str:
        """Return the option that switches it off; empty for none."""
        return self.option.partition("/")[2]

    def word(self, value: object) -> str:
        """Return a value as a command-line word; empty if it is off and has no word for that."""
        if isinstance(value, bool):
            return self.on if value else self.off
        return f"{self.on}={value}"

    def in_words(self, value: object) -> str:
        """Return a value as text for users."""
        if value is None:
            return self.none
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value * 100:.4g}%" if isinstance(value, float) else str(value)

    def is_usual(self, value: object) -> bool:
        """Return whether a value is the default; 1 (count) and 1.0 (share) differ."""
        return type(value) is type(self.default) and value == self.default

    @property
    def explained(self) -> str:
        """Return what it does and its default, as a sentence."""
        usual = self.usual or (str(self.default) if type(self.default) in (int, float) else "")
        return f"{self.help} (default: {usual})." if usual else f"{self.help}."


def setting(default: object, **known: Any) -> Any:
    """Return a dataclass field with metadata.

    Args:
        default: The field's default.
        known: Arguments of `Setting`, without those filled in later.
    """
    return field(default=default, metadata={KEY: Setting(**known)})
