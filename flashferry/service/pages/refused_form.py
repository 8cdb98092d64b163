"""A refused form shown again: the sentence inside the form, the input kept. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser

_UNFILLED = frozenset({"hidden", "password", "file", "submit"})
"""Inputs that are never filled again: secrets, files, and the form's token."""


@dataclass(slots=True)
class _Field:
    """An input, or an option of a select, with the position of its start tag."""

    name: str
    at: int
    tag: str
    attrs: dict[str, str | None]
    text: str = ""


@dataclass(slots=True)
class _Form:
    """A form: where its content begins, where it is sent, its fields, and the closed details around it."""

    begin: int
    actions: set[str]
    details: list[tuple[int, str]]
    fields: list[_Field] = field(default_factory=list)


class _Forms(HTMLParser):
    """Collects the forms of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[_Form] = []
        self._lines = [0]
        for line in html.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._details: list[tuple[int, str]] = []
        self._select = ""
        self._option: _Field | None = None
        self._open: _Form | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a form, one of its fields, or a details element that hides it."""
        line, column = self.getpos()
        at, text, given = self._lines[line - 1] + column, self.get_starttag_text() or "", dict(attrs)
        if tag == "details":
            self._details.append((at, text))
        elif tag == "form" and given.get("method") == "post":
            closed = [one for one in self._details if " open" not in one[1]]
            self._open = _Form(begin=at + len(text), actions={given.get("action") or ""}, details=closed)
            self.forms.append(self._open)
        elif self._open is not None:
            self._note(tag, at, text, given)

    def _note(self, tag: str, at: int, text: str, given: dict[str, str | None]) -> None:
        assert self._open is not None
        if tag == "button" and given.get("formaction"):
            self._open.actions.add(given["formaction"] or "")
        elif tag == "select":
            self._select = given.get("name") or ""
        elif tag == "option":
            self._option = _Field(self._select, at, text, given)
            self._open.fields.append(self._option)
        elif tag == "input" and given.get("name") and given.get("type") not in _UNFILLED:
            self._open.fields.append(_Field(given["name"] or "", at, text, given))

    def handle_data(self, data: str) -> None:
        """Take the text of an option, which is its value where it has no other."""
        if self._option is not None:
            self._option.text += data

    def handle_endtag(self, tag: str) -> None:
        """Note the end of an element."""
        if tag == "option":
            self._option = None
        elif tag == "form":
            self._open = None
        elif tag == "details" and self._details:
            self._details.pop()


def with_refusal(html: str, action: str, given: Mapping[str, Sequence[str]], refusal: str) -> str:
    """Return a page with a refusal in the form that was sent to a path, and the form filled in as it was sent.

    Args:
        html: The page.
        action: The path that the form was sent to; without such a form the refusal stands at the top of the page.
        given: The values that were sent, by name of the field.
        refusal: The refusal, as HTML.
    """
    form = next((one for one in _Forms(html).forms if action in one.actions), None)
    if form is None:
        head, main, rest = html.partition('<main id="main" tabindex="-1">')
        return f"{head}{main}{refusal}{rest}"
    edits = [(form.begin, 0, refusal)]
    edits += [(at, len(tag), tag.replace("<details", "<details open", 1)) for at, tag in form.details]
    edits += [(one.at, len(one.tag), _filled(one, given.get(one.name, ()))) for one in form.fields if given]
    for at, length, text in sorted(edits, reverse=True):
        html = html[:at] + text + html[at + length :]
    return html


def _filled(one: _Field, values: Sequence[str]) -> str:
    attrs = dict(one.attrs)
    if one.tag.startswith("<option"):
        _set(attrs, "selected", is_set=attrs.get("value", one.text.strip()) in values)
        return _tag("option", attrs)
    if attrs.get("type") == "checkbox":
        _set(attrs, "checked", is_set=(attrs.get("value") or "on") in values)
    elif values:
        attrs["value"] = values[0]
    return _tag("input", attrs)


def _set(attrs: dict[str, str | None], name: str, *, is_set: bool) -> None:
    attrs.pop(name, None)
    if is_set:
        attrs[name] = None


def _tag(name: str, attrs: Mapping[str, str | None]) -> str:
    words = (key if value is None else f'{key}="{escape(value)}"' for key, value in attrs.items())
    return f"<{' '.join((name, *words))}>"
