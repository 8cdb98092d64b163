"""The dialogue of `copy ftp://... flash:name`: text in, answers out. No session, no clock.

Facts
-----
* The questions below are all that were seen in captures and manuals; each has one answer, by policy, and none of the
  answers destroys anything: what exists is not overwritten, nothing is ever erased.
* Enter at `Erase flash: before copying? [confirm]` means yes and empties the flash (c3640, IOS 12.2): always `n`.
* A typed `y` at `Destination filename [x]?` becomes the file's name: Enter alone, and only where `x` is the name that
  the command gave. Another name there (`startup-config` was seen) is what Enter would overwrite.
* `[confirm]` takes a single key; `[yes/no]` and file names want Enter.
* When and how often something is typed: see `flashferry.devices.dialogue`.
* Only the line `N bytes copied` means success. An error line counts when it names our source or our target: other jobs
  (autoconfig looking for `network-confg`) print theirs into a copy that goes well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.dialogue import Dialogue
from inventory.view import WORD
from templates.rows import CopyError, CopyResult, last, rows

MAX_COMMAND_LENGTH = 253
"""An IOS EXEC line ends at 254 characters; pyATS keeps to 253 on devices too."""

_MASK = re.compile(r"(ftp://)[^@/\s]*@")


class Question(Enum):
    """A question of the dialogue: pattern, answer, and whether the answer ends the copy."""

    DESTINATION = (r"Destination filename \[[^\]]*\]\? ?", "\n", False)
    OVERWRITE = (r"Do you want to over ?write\? ?\[confirm\]", "n", True)
    ERASE = (r"Erase [\w-]+: ?before copying\? ?\[confirm\]", "n", False)
    ERASE_ALL = (r"Erasing the [\w-]+ filesystem will remove all files! Continue\? ?\[confirm\]", "n", True)
    WITH_ERASE = (r"WITH erase\? ?\[yes/no\]:? ?", "no\n", False)
    NOT_EXECUTABLE = (r"Abort Copy\? ?\[confirm\]", "\n", True)

    def __init__(self, pattern: str, answer: str, ends_copy: bool) -> None:
        self.pattern = re.compile(pattern, re.IGNORECASE)
        self.answer = answer
        self.ends_copy = ends_copy


_OFFERED = re.compile(r"Destination filename \[([^\]]*)\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOutcome:
    """How a copy ended by the device's own words.

    Attributes:
        result: The `bytes copied` line, or None.
        error: The reason in the error line that names our copy, or None.
        refused: The question that ended the copy because our policy says no, or None.
    """

    result: CopyResult | None
    error: str | None
    refused: Question | None


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
"""File names that a URL and an IOS command line carry unquoted: no blank, no `?` (help), no `%` (escape), no `|`."""


def checked_name(image: str) -> str:
    """Return an image name that a copy command can carry.

    Raises:
        ConfigInvalid: It has other characters.
    """
    if not NAME.fullmatch(image):
        raise ConfigInvalid(
            f"image name {image!r}: expected letters, digits, '.', '_', '+' and '-' only, which is what an IOS "
            "command line carries",
            hint="Rename the file",
        )
    return image


def mask(text: str) -> str:
    """Return text without the credentials of any FTP URL."""
    return _MASK.sub(r"\1*:*@", text)


def copy_command(
    *, username: str, password: str, server: str, port: int, image: str, target: str, vrf: str | None = None
) -> str:
    """Return the command with which a device pulls an image.

    Args:
        username: Letters and digits only: `%xy` is forbidden in the URL and `?` would call the CLI's help.
        password: The same.
        server: Our address as the device reaches it.
        port: FTP port; 21 is left out of the URL, as old releases may not take one.
        image: Catalogue name.
        target: For example `bootflash:image.bin`, or `null:`.
        vrf: VRF to use, or None.

    Raises:
        ConfigInvalid: The command would be longer than an IOS line, or a name holds what IOS cannot take.
    """
    checked_name(image)
    for what, word in (("server address", server), ("VRF", vrf or "x")):
        if not WORD.fullmatch(word):
            raise ConfigInvalid(
                f"{what} {word!r}: expected letters, digits, '.', '_' and '-' only",
                hint="Correct it in the inventory ('server_address', 'vrf'), or give another with --address",
            )
    where = server if port == 21 else f"{server}:{port}"
    tail = f" vrf {vrf}" if vrf else ""
    command = f"copy ftp://{username}:{password}@{where}/{image} {target}{tail}"
    if len(command) > MAX_COMMAND_LENGTH:
        raise ConfigInvalid(
            f"image name '{image}': the copy command would have {len(command)} characters, an IOS line takes "
            f"{MAX_COMMAND_LENGTH}",
            hint="Give the file a shorter name",
        )
    return command


class CopyDialogue(Dialogue):
    """Answers a device's questions until its prompt comes back.

    Args:
        prompt_pattern: Regular expression of the privileged prompt, alone on a line.
        source: `host/image` as it stands in the URL behind the credentials.
        target: The copy's target.
        secrets: What must never be in the transcript, however the terminal cuts or wraps the echo of the URL.
    """

    def __init__(self, *, prompt_pattern: str, source: str, target: str, secrets: tuple[str, ...] = ()) -> None:
        super().__init__(prompt_pattern=prompt_pattern, questions=Question)
        self._source = source
        self._target = target
        self._secrets = secrets

    @property
    def transcript(self) -> str:
        """Return all output so far, without credentials."""
        return self._masked(self.text)

    @property
    def objection(self) -> str | None:
        """Return why the name that the device offers must not be confirmed, or None."""
        if self._asked() is not Question.DESTINATION:
            return None
        offered = _OFFERED.findall(self.text)[-1]
        if _name_of(offered) in self._names:
            return None
        return f"expected the name {' or '.join(sorted(self._names))!r}, which the command gave"

    @property
    def _names(self) -> frozenset[str]:
        """Return what the device may offer as the name: that of the target, or the image's where there is no target."""
        if self._target == "null:":
            return frozenset({_name_of(self._source.rpartition("/")[2]), "null", ""})
        return frozenset({_name_of(self._target)})

    def outcome(self) -> CopyOutcome:
        """Return how the copy ended."""
        result = last(CopyResult, self.text)
        errors = [row for row in rows(CopyError, self.text) if self._is_ours(row)]
        return CopyOutcome(
            result=result,
            error=errors[-1].reason if errors and result is None else None,
            refused=next((one for one in self.answered if isinstance(one, Question) and one.ends_copy), None),
        )

    def _shown(self, text: str) -> str:
        return self._masked(text)

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            # A terminal may break a long echo anywhere, also within the secret.
            text = re.sub(r"[\r\n\b$ ]*".join(map(re.escape, secret)), "*", text)
        return mask(text)

    def _is_ours(self, row: CopyError) -> bool:
        """Tell whether an error names our copy; credentials are masked and `flash:` may read `bootflash:`."""
        subject = _MASK.sub(r"\1", row.subject)
        if "://" in subject:
            return subject.removeprefix("ftp://").replace("//", "/") == self._source
        return _name_of(subject) == _name_of(self._target)


def _name_of(path: str) -> str:
    """Return a path without its file system and leading slash, as the device may spell it."""
    return path.rpartition(":")[2].lstrip("/")
