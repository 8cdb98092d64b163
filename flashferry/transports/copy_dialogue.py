"""The dialogue of a device's copy command: text in, answers out. No session, no clock.

Facts
-----
* What is asked is the platform's (`CopyGrammar`) and the transport's; each question has one answer, by policy, and none
  of the answers destroys anything: what exists is not overwritten, nothing is ever erased.
* Where the device offers a name for the target, Enter confirms it, and only where it is the one that the command gave.
  Another name there (`startup-config` was seen) is what Enter would overwrite.
* When and how often something is typed: see `flashferry.devices.dialogue`.
* Only the line that counts the bytes means success. An error line counts when it names our source or our target: other
  jobs (autoconfig looking for `network-confg`) print theirs into a copy that goes well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from flashferry.devices.dialogue import Dialogue
from flashferry.devices.platforms.platform import CopyQuestion, Platform
from flashferry.transports.transport import Offer, Words
from templates.rows import CopyError, CopyResult, last, rows

_CREDENTIALS = re.compile(r"\b([a-z]+://)[^@/\s]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOutcome:
    """How a copy ended by the device's own words.

    Attributes:
        result: The line that counts the bytes, or None.
        error: The reason in the error line that names our copy, or None.
        refused: The question that ended the copy because our policy says no, or None.
    """

    result: CopyResult | None
    error: str | None
    refused: CopyQuestion | None


def mask(text: str) -> str:
    """Return text without the credentials of any URL."""
    return _CREDENTIALS.sub(r"\1*:*@", text)


class CopyDialogue(Dialogue):
    """Answers a device's questions until its prompt comes back.

    Args:
        prompt_pattern: Regular expression of the privileged prompt, alone on a line.
        offer: What the device was told. Its credentials are kept out of the transcript, however the terminal cuts or
            wraps the echo of the URL.
        target: The copy's target.
        platform: The device's.
    """

    def __init__(self, *, prompt_pattern: str, offer: Offer, target: str, platform: Platform) -> None:
        self._grammar = platform.copying
        super().__init__(
            prompt_pattern=prompt_pattern, questions=(*self._grammar.questions, *offer.transport.questions)
        )
        self._offer = offer
        self._target = target

    @property
    def transcript(self) -> str:
        """Return all output so far, without credentials."""
        return self._masked(self.text)

    @property
    def words(self) -> Words:
        """Return what people are told where the copy does not come about."""
        return self._offer.transport.words

    @property
    def objection(self) -> str | None:
        """Return why the name that the device offers must not be confirmed, or None."""
        asked = self._asked()
        if not isinstance(asked, CopyQuestion) or not asked.offers_name:
            return None
        offered = asked.pattern.findall(self.text)[-1]
        if _name_of(offered) in self._names:
            return None
        return f"expected the name {' or '.join(sorted(self._names))!r}, which the command gave"

    @property
    def _names(self) -> frozenset[str]:
        """Return what the device may offer as the name: that of the target, or the image's where there is no target."""
        nowhere = self._grammar.no_file
        if self._target == nowhere:
            return frozenset({_name_of(self._offer.image), nowhere.rstrip(":"), ""})
        return frozenset({_name_of(self._target)})

    def outcome(self) -> CopyOutcome:
        """Return how the copy ended."""
        result = last(self._grammar.result, self.text)
        errors = [row for row in rows(self._grammar.error, self.text) if self._is_ours(row)]
        return CopyOutcome(
            result=result,
            error=errors[-1].reason if errors and result is None else None,
            refused=next((one for one in self.answered if isinstance(one, CopyQuestion) and one.ends_copy), None),
        )

    def _shown(self, text: str) -> str:
        return self._masked(text)

    def _masked(self, text: str) -> str:
        for secret in (self._offer.username, self._offer.password):
            # A terminal may break a long echo anywhere, also within the secret.
            text = re.sub(r"[\r\n\b$ ]*".join(map(re.escape, secret)), "*", text)
        return mask(text)

    def _is_ours(self, row: CopyError) -> bool:
        """Tell whether an error names our copy; credentials are masked and `flash:` may read `bootflash:`."""
        subject = _CREDENTIALS.sub(r"\1", row.subject)
        if "://" in subject:
            return subject.removeprefix(f"{self._offer.transport.name}://").replace("//", "/") == self._offer.place
        return _name_of(subject) == _name_of(self._target)


def _name_of(path: str) -> str:
    """Return a path without its file system and leading slash, as the device may spell it."""
    return path.rpartition(":")[2].lstrip("/")
