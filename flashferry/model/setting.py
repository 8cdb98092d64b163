"""What is known of a setting besides its value, written once beside the field that holds it.

Options of the command line, bodies and forms of the service, the differences of two plans, what a resumed run takes and
the tables of the documents are made of it (`flashferry.model.policy`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

KEY = "setting"
"""Under which a field's metadata has what is known of it."""


class Subject(StrEnum):
    """What a setting is about; help has a heading for each."""

    RUN = "Options"
    IMAGE = "Image"
    TUNING = "TCP tuning"
    SERVER = "Our server"
    WAVES = "Waves and limits"


class AtService(StrEnum):
    """When a person chooses a setting at a service.

    PLAN: with the plan that the service makes, so that it is approved with it. START: then, or beyond the plan when its
    run is started, for nothing that is sent to change a device depends on it.
    """

    NEVER = "never"
    PLAN = "with the plan"
    START = "with the plan or at the start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known of a setting.

    Attributes:
        help: What it does, as an option's help has it, without its default and the full stop.
        subject: What it is about.
        name: What it is called wherever it is chosen: the field's own name unless another is given.
        option: Its long name on the command line; `--on/--off` where no and nothing said are not the same. Empty: made
            of its name.
        metavar: What stands for its value in help.
        label: How a plan shows it to people; empty: no plan carries it.
        planned: Whether `flashferry plan` takes it although no plan carries it.
        is_settled: Whether a run settles it when it starts, so that it does not change when the run is resumed.
        at_service: When it is chosen at a service.
        least: Least value, or None.
        most: Greatest value, or None.
        usual: The default in words; empty: as the field has it.
        none: What it means to have no value, in words.
        choices: The words that it takes, or None.
        read: Makes the value of a word; None: the value is the word, the number or the flag itself.
        path: The fields that lead to it from a policy; filled in by `flashferry.model.policy`.
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
        """Return whether `flashferry plan` takes it."""
        return self.planned or self.label != ""

    @property
    def is_flag(self) -> bool:
        """Return whether it is on or off."""
        return isinstance(self.default, bool) or self.kind == bool | None

    @property
    def on(self) -> str:
        """Return the option that switches it on, or takes its value."""
        return self.option.partition("/")[0]

    @property
    def off(self) -> str:
        """Return the option that switches it off; empty where there is none."""
        return self.option.partition("/")[2]

    def word(self, value: object) -> str:
        """Return a value of it as a word of a command line; empty where it is off and has no word for that."""
        if isinstance(value, bool):
            return self.on if value else self.off
        return f"{self.on}={value}"

    def in_words(self, value: object) -> str:
        """Return a value of it for people."""
        if value is None:
            return self.none
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value * 100:.4g}%" if isinstance(value, float) else str(value)

    def is_usual(self, value: object) -> bool:
        """Return whether a value of it is the default; a count is no share, though both are 1."""
        return type(value) is type(self.default) and value == self.default

    @property
    def explained(self) -> str:
        """Return what it does and its default, as a sentence."""
        usual = self.usual or (str(self.default) if type(self.default) in (int, float) else "")
        return f"{self.help} (default: {usual})." if usual else f"{self.help}."


def setting(default: object, **known: Any) -> Any:
    """Return a field of a policy with what is known of it.

    Args:
        default: The field's default.
        known: What `Setting` takes; not what is filled in.
    """
    return field(default=default, metadata={KEY: Setting(**known)})
