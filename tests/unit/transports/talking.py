"""How a copy dialogue is shown what a device prints."""

from __future__ import annotations

from flashferry.transports.copy_dialogue import CopyDialogue


def answer_to(talk: CopyDialogue, shown: str) -> str | None:
    """Show something; return what is typed into it, as the session does it."""
    talk.take(shown)
    answer = talk.due
    if answer is not None:
        talk.typed()
    return answer
