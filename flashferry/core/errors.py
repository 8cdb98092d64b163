"""The base of every error that an operator may see: what went wrong, on which device, at which step, what to do."""

from __future__ import annotations

from flashferry.core.outside import masked


class FlashferryError(Exception):
    """An expected failure, told in one sentence.

    Attributes:
        message: What was expected and what was seen; no sentence of ours puts a secret in, a device's own words may.
        host: Inventory name of the device, or None where no single device is meant.
        step: The step at which it happened (`check`, `tune`, `pull`, ...), or None.
        hint: What to do next, or None.
    """

    def __init__(
        self, message: str, *, host: str | None = None, step: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.host = host
        self.step = step
        self.hint = hint

    def __str__(self) -> str:
        """Return `host: step: message. hint`, leaving out what is not known, and secrets, wherever they came from."""
        where = "".join(f"{part}: " for part in (self.host, self.step) if part)
        return masked(f"{where}{self.message}" + (f". {self.hint}" if self.hint else ""))

    def at(self, *, host: str, step: str) -> FlashferryError:
        """Return self with the device and step filled in where they were not known."""
        self.host = self.host or host
        self.step = self.step or step
        return self


class ConfigInvalid(FlashferryError):
    """The operator's input (inventory, option, image path) is wrong; nothing was touched."""
