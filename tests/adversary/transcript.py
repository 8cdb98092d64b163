"""A played case for reading: what the routers showed, what was typed, what befell them, with times; secrets masked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.adversary.case import Case
from tests.adversary.judge import complaints
from tests.adversary.player import Played
from tests.adversary.router.terminal import Passage

MOST_LINES = 14
HEAD, TAIL = 5, 3


def transcript(played: Played) -> str:
    """Return the transcript of a case."""
    case, found = played.case, played.found
    lines = [*_head(case), ""]
    for passage in _merged(played.transcript):
        lines += _lines(passage, played.secrets)
    lines += ["", *(f"{said.verb} of {said.controller}: {_end(said)}" for said in found.said if said.acts)]
    broken = complaints(found)
    lines += ["", *(str(one) for one in broken)] if broken else ["", "All four judgements hold."]
    return "\n".join(lines) + "\n"


def _head(case: Case) -> Iterator[str]:
    yield f"device     {case.start.platform}, {', '.join(case.start.lines) or 'no ip tcp line'}"
    yield f"commands   {', '.join(map(str, case.steps))}"
    for behaviour in case.behaviours:
        yield f"behaviour  {behaviour}"


def _end(said: object) -> str:
    ending, code, records = (getattr(said, name) for name in ("ending", "code", "records"))
    what = "; ".join(f"{one.get('outcome', '-')}, {one.get('restored', '-')}{_why(one)}" for one in records)
    return f"{ending}, exit code {code}{f'; {what}' if what else ''}"


def _why(record: dict[str, object]) -> str:
    failures = (record.get("failure"), record.get("restore_failure"))
    told = [
        f"{one['step']}: {one['reason']}" + (f". {one['hint']}" if one.get("hint") else "")
        for one in failures
        if isinstance(one, dict)
    ]
    return f" ({'; '.join(told)})" if told else ""


def _merged(passages: Iterable[Passage]) -> Iterator[Passage]:
    """Put together what one session showed in a row; moments that only mark a command are left out."""
    last: Passage | None = None
    for one in passages:
        if one.kind == "moment" and one.text.startswith("command:"):
            continue
        if last is not None and (last.kind, last.session) == (one.kind, one.session) and one.kind in {"shown", "typed"}:
            last = Passage(at_s=last.at_s, session=one.session, kind=one.kind, text=last.text + one.text)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _lines(passage: Passage, secrets: tuple[str, ...]) -> Iterator[str]:
    text = passage.text
    for secret in secrets:
        text = text.replace(secret, "*" * 6)
    time = f"{passage.at_s:7.2f} s"
    match passage.kind:
        case "began":
            yield f"{time}  -- session {passage.session} begins; {text} answers"
        case "ended":
            yield f"{time}  -- session {passage.session} ends"
        case "act":
            yield f"{time}  ** {text}"
        case "moment":
            yield f"{time}  .. {text}"
        case "command":
            yield f"{time}  == {text}"
        case "typed":
            yield f"{time}  {passage.session} << {_visible(text, keeps_lines=False)}"
        case _ if text:
            yield from (f"{time}  {passage.session} >> {line}" for line in _shortened(_visible(text).split("\n")))


def _visible(text: str, *, keeps_lines: bool = True) -> str:
    """Return text with control characters as people write them."""
    text = text.replace("\r\n", "\n") if keeps_lines else text.replace("\n", "<Enter>")
    return "".join(one if one >= " " or one == "\n" else f"<Ctrl-{chr(ord(one) + 64)}>" for one in text)


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[:HEAD], f"... {len(lines) - HEAD - TAIL} lines ...", *lines[-TAIL:]]
