"""How much of a run may go on at the same time. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields

from flashferry.core.errors import ConfigInvalid

MOST = 10_000
"""More of anything at once is a slip of the finger; no controller carries it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one run, each from 1 to `MOST`.

    Attributes:
        logins: SSH sessions that are being opened at the same time; a login costs a router seconds of CPU, and a server
            of logins (TACACS+, RADIUS) has a limit of its own.
        copies: Copies at the same time in the whole run.
        site_copies: Copies at the same time at one site; they share the site's cap. A site may have a lower one in the
            inventory (`max_copies`).
        hashes: Devices that hash at the same time. They do it by themselves, and one that waits for its turn is tuned
            all the while: so no fewer than copies, by default.
    """

    logins: int = 20
    copies: int = 200
    site_copies: int = 8
    hashes: int = 200

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
                raise ConfigInvalid(
                    f"limit of {field.name}: expected a whole number from 1 to {MOST:,}, found {value!r}"
                )

    def of_site(self, site_limit: int | None) -> int:
        """Return how many copies may run at a site that has a limit of its own, or None."""
        return min(self.copies, self.site_copies if site_limit is None else min(site_limit, self.site_copies))
