"""docs/service.md has the keys that the code reads, the kinds of notices, and an example that checks a signature."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashferry.model.file_keys import Key
from flashferry.service.configuration import SECTIONS
from flashferry.service.hooks.managing import CHOICES, HookForm
from flashferry.service.hooks.sending import SIGNATURE, TIMESTAMP, signature

PAGE = Path(__file__).resolve().parents[3] / "docs" / "service.md"
BEGIN = "<!-- keys: begin -->\n"
END = "<!-- keys: end -->"
KINDS = re.compile(r"(\| kind \| reports \|\n\|---\|---\|\n).*?(?=\n\n)", re.DOTALL)


@pytest.fixture
def page() -> str:
    if not PAGE.is_file():
        pytest.skip("the tests run away from the checkout, without docs")
    return PAGE.read_text(encoding="utf-8")


def table() -> str:
    """Return the table of all keys as the page has it."""
    rows = ["| key | holds | without it | what it is for |", "|---|---|---|---|"]
    for section, keys in SECTIONS.items():
        rows += [row(f"[{section}] {key.name}", key) for key in keys]
    return "\n".join(rows) + "\n"


def row(name: str, key: Key) -> str:
    """Return a key's row."""
    if key.is_required:
        default = "**required**"
    elif key.shown_default is not None:
        default = key.shown_default
    elif key.default in (None, (), "", {}):
        default = ""
    else:
        default = f"`{key.default:g}`" if isinstance(key.default, float) else f"`{key.default}`"
    return f"| `{name}` | {key.values} | {default} | {key.says} |"


def kinds() -> str:
    """Return the rows of all kinds of notices."""
    return "\n".join(f"| `{kind}` | {kind.meaning} |" for kind in CHOICES)


def test_the_table_of_keys_is_that_of_the_code(page):
    """Every key with what it may hold, what counts without it, and what it is for; `python -m` writes it anew."""
    assert page.split(BEGIN)[1].split(END)[0] == table(), f"stale: run python -m {__name__}"


def test_the_kinds_of_notices_are_those_of_the_code(page):
    """Each with what it tells."""
    found = KINDS.search(page)
    assert found is not None
    assert found[0].removeprefix(found[1]) == kinds(), f"stale: run python -m {__name__}"


def test_every_form_of_a_hook_is_told(page):
    """With where it leads."""
    section = page.split("## Notices and hooks")[1]
    assert [form for form in HookForm if f"| `{form}` |" not in section] == []


def test_the_example_checks_a_signature(page):
    """As it stands on the page: ours is right, another is not."""
    text = next(one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "is_ours" in one)
    own: dict[str, object] = {}
    exec(text, own)
    is_ours = own["is_ours"]
    assert callable(is_ours)
    headers = {TIMESTAMP: "1", SIGNATURE: f"sha256={signature('s', '1', b'{}')}"}
    assert is_ours("s", headers, b"{}") is True
    assert is_ours("s", headers, b"{} ") is False
    assert is_ours("t", headers, b"{}") is False
    assert is_ours("s", headers | {TIMESTAMP: "2"}, b"{}") is False


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    text = before + BEGIN + table() + END + rest.split(END, 1)[1]
    PAGE.write_text(KINDS.sub(lambda found: found[1] + kinds(), text), encoding="utf-8")
