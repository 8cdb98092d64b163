"""Why tests of pyftpdlib's own suite do not pass, held against a run, and as a table. See `pyftpdlib_suite`."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

WORDING = "wording"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why some tests do not pass.

    Attributes:
        title: In a line.
        why: With what the RFCs say to it.
        tests: Test, as class and name, to what it wants.
    """

    title: str
    why: str
    tests: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """All of them.

    Attributes:
        by_key: In the order of the file.
        words: Our replies to theirs, for the tests that want nothing else.
        says_nothing: Tests that pass whatever our server does, each with what it looks at instead.
    """

    by_key: dict[str, Reason]
    words: dict[str, str]
    says_nothing: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "Reasons":
        """Read the file.

        Raises:
            ValueError: It gives a test two reasons.
        """
        data = tomllib.loads(path.read_text())
        by_key = {key: Reason(**values) for key, values in data["reasons"].items()}
        names = [name for reason in by_key.values() for name in reason.tests]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{path}: expected one reason for each test, found two for {', '.join(twice)}")
        return cls(by_key=by_key, words=data["words"], says_nothing=data["says_nothing"])

    @property
    def key_of(self) -> dict[str, str]:
        """Test to the key of its reason."""
        return {name: key for key, reason in self.by_key.items() for name in reason.tests}

    @property
    def of_wording(self) -> list[str]:
        """The tests that want the reply's words, and nothing else."""
        return list(self.by_key[WORDING].tests)


def mistakes(outcomes: dict[str, str], in_their_words: dict[str, str], reasons: Reasons) -> list[str]:
    """Return in sentences where a run and the reasons disagree.

    Args:
        outcomes: Test to `passed`, `failed` or `skipped`.
        in_their_words: The same of those whose reason is the wording, run with our words put into theirs.
        reasons: What was expected.
    """
    key_of, found = reasons.key_of, []
    for name, outcome in outcomes.items():
        if outcome == "failed" and name not in key_of:
            found.append(f"{name}: failed; expected a reason for it, found none")
        elif outcome == "skipped":
            found.append(f"{name}: was skipped; expected all to be run, with IPv4 and IPv6 on the loopback")
    for name in (*key_of, *reasons.says_nothing):
        wanted = "failed" if name in key_of else "passed"
        if outcomes.get(name, "not run") not in (wanted, "skipped"):
            section = f"reason {key_of[name]!r}" if name in key_of else "said to say nothing"
            found.append(f"{name}: {section}, so expected {wanted}, found {outcomes.get(name, 'not run')}")
    found += [
        f"{name}: reason {WORDING!r}, so expected to pass with our words put into theirs, found {outcome}"
        for name in reasons.of_wording
        if (outcome := in_their_words.get(name, "not run")) != "passed"
    ]
    return found


def to_markdown(outcomes: dict[str, str], reasons: Reasons, about: str) -> str:
    """Return counts, and why, by reason; the tests by name are in the file of reasons alone.

    Args:
        outcomes: Test to outcome.
        reasons: Why those that failed did.
        about: When and where it was run, in sentences.
    """
    passed = sum(outcome == "passed" for outcome in outcomes.values())
    failed = sum(outcome == "failed" for outcome in outcomes.values())
    lines = [f"{about} Of {len(outcomes)} tests {passed} pass and {failed} do not.", ""]
    lines += [f"- **{reason.title}** ({len(reason.tests)}). {reason.why}" for reason in reasons.by_key.values()]
    lines += [
        "",
        f"{len(reasons.says_nothing)} of those that pass say nothing of our server; the file of reasons names all.",
    ]
    return "\n".join(lines) + "\n"
