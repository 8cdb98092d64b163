"""The dialogue of a device's copy command: takes its output, gives the answers. No session.

Facts
-----
* The questions come from the platform (`CopyGrammar`) and from the transport. Each has one answer, and no answer
  destroys anything: existing files are not overwritten, nothing is ever erased.
* If the device offers a name for the target, it is confirmed by Enter only if it is the one in the command. Enter would
  overwrite another one (`startup-config` was seen). The same applies to the server, user and source file that it
  offers: some releases ask for them although the URL has them (ASR903, XE 3.16).
* A password is typed once. If the device asks again, either the server refused the password or the device repeats the
  question. The two cannot be distinguished, so the password is not typed a second time.
* A host key is confirmed only if the device shows, after the command, a fingerprint that is one of ours. No capture
  shows the whole question, or whether the device stores the key; if it does, the restore finds the difference.
* When and how often something is typed: see `flashferry.devices.dialogue`.
* Only the line with the byte count means success. An error line counts if it names our source or our target: other
  processes (autoconfig looking for `network-confg`) print theirs during a copy that succeeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from flashferry.core.values import replace
from flashferry.devices.dialogue import Dialogue
from flashferry.devices.platforms.platform import CopyQuestion, Offered, Platform, file_name
from flashferry.transports.transport import Messages, Offer
from templates.rows import CopyError, CopyResult, SshAborted, SshNoMatch, first, last, rows

_BREAKS = dict.fromkeys(map(ord, "\r\n\b$ "))
"""What a terminal puts into a long line, to be deleted by `str.translate`."""

_DIGITS = re.compile(r"(?:[0-9a-fA-F]{2}:?){16,}")
_LEAST_FINGERPRINT = 32
"""Least length in characters of a fingerprint that is no MD5."""

_CREDENTIALS = re.compile(r"\b([a-z]+://)[^@/\s]*@")


class CopyOutcome(Struct, frozen=True, kw_only=True):
    """End of a copy by the device's output; each field is None if the output has no such line.

    Attributes:
        result: The line with the byte count.
        error: The reason in the error line that names our copy.
        refused: The question that we answered with no, which ended the copy.
        no_match: The device's log line that it has no common algorithm with our server.
    """

    result: CopyResult | None
    error: str | None
    refused: CopyQuestion | None
    no_match: SshNoMatch | None = None


def mask(text: str) -> str:
    """Return text without the credentials of any URL."""
    return _CREDENTIALS.sub(r"\1*:*@", text)


class CopyDialogue(Dialogue):
    """Answers a device's questions until its prompt returns.

    Args:
        prompt_pattern: Regular expression of the privileged prompt, alone on a line.
        offer: Server, image and credentials. The credentials are removed from the transcript, even if the terminal cuts
            or wraps the echo of the URL.
        target: The copy's target.
        platform: The device's platform.
        clock: As in `Dialogue`.
    """

    def __init__(
        self,
        *,
        prompt_pattern: str,
        offer: Offer,
        target: str,
        platform: Platform,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._grammar = platform.copying
        # The transport's questions first: one may end like a question of every copy.
        asked = (*offer.transport.questions, *self._grammar.questions)
        questions = [_with_secret(one, offer) for one in asked]
        super().__init__(prompt_pattern=prompt_pattern, questions=questions, clock=clock)
        self._offer = offer
        self._target = target

    @property
    def transcript(self) -> str:
        """Return all output so far, without credentials."""
        return self._masked(self.text)

    @property
    def words(self) -> Messages:
        """Return the messages for a failed copy."""
        return self._offer.transport.words

    @property
    def objection(self) -> str | None:
        """Return why a value that the device offers must not be confirmed, or None."""
        asked = self._asked()
        if not isinstance(asked, CopyQuestion) or asked.offers is None:
            return None
        if asked.offers is Offered.HOST_KEY:
            return None if self._shows_our_key else "expected the fingerprint of a key of our server in front of it"
        offered = str(asked.pattern.findall(self.text)[-1])
        if self._is_offered_ours(asked.offers, offered):
            return None
        if asked.offers is Offered.USER:
            return "expected the ticket's user, which the command gave"
        names = self._names if asked.offers is Offered.TARGET else self._own(asked.offers)
        return f"expected the name {' or '.join(sorted(names))!r}, which the command gave"

    @property
    def is_login_refused(self) -> bool:
        """Return whether the device asks again for the password after it was typed.

        A password is not echoed, so the question may stay the last output for as long as the login takes: only a
        question in the output since then is a new one.
        """
        return self._is_password_typed and self._is_asked_again

    @property
    def stuck_at(self) -> str | None:
        """Return in words what the device waits for that we do not type; None while it is working."""
        if self._is_password_typed and self._asked_for_password:
            if not self._is_asked_again:
                return None
            return "the device asks for the password again: it was refused with the ticket's, which is typed only once"
        return super().stuck_at

    @property
    def _asked_for_password(self) -> bool:
        asked = self._asked()
        return isinstance(asked, CopyQuestion) and asked.wants_password

    @property
    def _is_password_typed(self) -> bool:
        return any(isinstance(one, CopyQuestion) and one.wants_password for one in self.answered)

    @property
    def _is_asked_again(self) -> bool:
        asked = self._asked()
        return self._asked_for_password and asked is not None and asked.pattern.search(self.since_answer) is not None

    def _is_offered_ours(self, what: Offered, offered: str) -> bool:
        if what is Offered.TARGET:
            return file_name(offered) in self._names
        offered = offered.strip()
        return (file_name(offered) if what is Offered.SOURCE else offered) in self._own(what)

    def _own(self, what: Offered) -> frozenset[str]:
        """Return the values of ours that the device may offer for a part of the URL."""
        offer = self._offer
        return {
            Offered.SERVER: frozenset({offer.server, f"{offer.server}:{offer.port}"}),
            Offered.USER: frozenset({offer.username}),
            Offered.SOURCE: frozenset({offer.image}),
        }[what]

    @property
    def _shows_our_key(self) -> bool:
        """Return whether the device's output has a fingerprint of ours, even if it is wrapped."""
        shown = re.sub(r"\s+", "", self.text)
        return any(_stands_in(one, shown) for one in self._offer.fingerprints)

    @property
    def _names(self) -> frozenset[str]:
        """Return the names that the device may offer for the target: its file name, or the image's for `null:`."""
        nowhere = self._grammar.no_file
        if self._target == nowhere:
            return frozenset({file_name(self._offer.image), nowhere.rstrip(":"), ""})
        return frozenset({file_name(self._target)})

    def outcome(self) -> CopyOutcome:
        """Return the end of the copy by the output so far."""
        result = last(CopyResult, self.text)
        errors = [row for row in rows(CopyError, self.text) if self._is_ours(row)]
        error = errors[-1].reason if errors else None
        if error is None and (aborted := last(SshAborted, self.text)) is not None:
            error = f"connection aborted, error status {aborted.status}"
        return CopyOutcome(
            result=result,
            error=error if result is None else None,
            no_match=first(SshNoMatch, self.text) if result is None else None,
            refused=next((one for one in self.answered if isinstance(one, CopyQuestion) and one.ends_copy), None),
        )

    def _shown(self, text: str) -> str:
        return self._masked(text)

    def _masked(self, text: str) -> str:
        for secret in filter(None, (self._offer.username, self._offer.password)):
            # A terminal may break a long echo anywhere, even within the secret.
            if secret.translate(_BREAKS) in text.translate(_BREAKS):
                text = re.sub(r"[\r\n\b$ ]*".join(map(re.escape, secret)), "*", text)
        return mask(text)

    def _is_ours(self, row: CopyError) -> bool:
        """Return whether an error line names our copy.

        Credentials are masked in it, and the device may print `flash:` for `bootflash:`.
        """
        subject = _CREDENTIALS.sub(r"\1", row.subject)
        if "://" in subject:
            place = subject.removeprefix(f"{self._offer.transport.scheme}://").replace("//", "/")
            return place in {self._offer.place, self._offer.place_without_port}
        return file_name(subject) == file_name(self._target)


def _stands_in(fingerprint: str, shown: str) -> bool:
    """Return whether a text without spaces has a fingerprint; MD5 in any case, with or without colons."""
    if _DIGITS.fullmatch(fingerprint):
        return fingerprint.replace(":", "").lower() in shown.replace(":", "").lower()
    return len(fingerprint) >= _LEAST_FINGERPRINT and fingerprint in shown


def _with_secret(asked: CopyQuestion, offer: Offer) -> CopyQuestion:
    """Return a question, with the ticket's password as its answer if it asks for a password."""
    return replace(asked, answer=f"{offer.password}\n") if asked.wants_password else asked
