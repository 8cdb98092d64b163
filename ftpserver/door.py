"""Fixed logins at the door: whose password is right, and who has guessed too often. Time comes in as a number."""

from typing import TYPE_CHECKING

from ftpserver.bans import FailureBook
from ftpserver.tickets import Refusal, names_source, password_matches

if TYPE_CHECKING:
    from ftpserver.logins import FixedGrant
    from ftpserver.settings import Limits


class FixedDoor:
    """The fixed logins of a server, and the guesses at them.

    They are counted apart: an address that a ticket names is never banned, and a ticket's login clears an address,
    which is right for 95 random bits and wrong for a password that a person chose.
    """

    def __init__(self, limits: "Limits") -> None:
        self._guesses = FailureBook(limits.failed_logins, limits.ban_s)
        self._logins: dict[str, FixedGrant] = {}

    def admit(self, fixed: "FixedGrant") -> None:
        """Let a fixed login in from now on; one of the same user is replaced."""
        self._logins[fixed.username] = fixed

    def find(self, username: str) -> "FixedGrant | None":
        """Return the fixed login of a user."""
        return self._logins.get(username)

    def prune(self, now_s: float) -> None:
        """Forget the guesses that no longer count."""
        self._guesses.prune(now_s)

    def refusal(self, fixed: "FixedGrant", password: str, address: str, now_s: float) -> Refusal | None:
        """Return why a login is refused; None lets it in and clears its address."""
        matches = password_matches(fixed, password)
        if self._guesses.locked_out(address, now_s):
            return Refusal.LOCKED_OUT
        if matches and (not fixed.source_addresses or names_source(fixed.source_addresses, address)):
            self._guesses.forgive(address)
            return None
        self._guesses.note(address, now_s)
        return Refusal.WRONG_SOURCE if matches else Refusal.WRONG_PASSWORD
