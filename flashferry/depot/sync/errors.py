"""What keeps an image from coming, by who must act: the network, the source's owner, the planner, or no one.

What was verified is kept in every case; the same sync, started again, goes on after it.
"""

from __future__ import annotations

from typing import ClassVar

from flashferry.core.errors import FlashferryError, Kind


class SourceUnreachable(FlashferryError):
    """The line to the source broke, or nothing answers there: worth another try.

    Attributes:
        has_answered: Whether it began to answer: then it is there, and will be again.
    """

    has_answered = False
    kind: ClassVar[Kind] = Kind.SOURCE_UNREACHABLE
    advice: ClassVar[str | None] = "Sync again once the line is there: it goes on behind what is verified"


class SourceRefused(FlashferryError):
    """The source answers, and refuses: who we are, what we ask for, or we it, by its certificate or host key.

    Attributes:
        may_pass: Whether a source says so, too, that was started this moment, and does not know its logins yet.
    """

    kind: ClassVar[Kind] = Kind.SOURCE_REFUSED
    may_pass = False


class SourceWrong(FlashferryError):
    """The source sends something else than it says it has."""

    kind: ClassVar[Kind] = Kind.SOURCE_WRONG
    advice: ClassVar[str | None] = (
        "Have the image looked at where it comes from ('flashferry depot verify' there), and what is on the way to it"
    )


class SourceChanged(FlashferryError):
    """The source has another image under the name than the one that is wanted."""

    kind: ClassVar[Kind] = Kind.SOURCE_CHANGED
    advice: ClassVar[str | None] = "Ask anew for what it has now; where a plan names the image, plan anew"


class SyncStopped(FlashferryError):
    """The operator ended the sync."""

    kind: ClassVar[Kind] = Kind.SYNC_STOPPED
    advice: ClassVar[str | None] = "The same command goes on behind what is verified"
