"""docs/nightly.md has the keys that the code reads, and examples that can be used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.main import get_group

from flashferry.cli.nightly import app
from flashferry.model.file_keys import Key
from flashferry.nightly.description.reading import SECTIONS, load_description
from tests.unit.nightly.describing import written

PAGE = Path(__file__).resolve().parents[3] / "docs" / "nightly.md"
BEGIN = "<!-- keys: begin -->\n"
END = "<!-- keys: end -->"


@pytest.fixture
def page() -> str:
    if not PAGE.is_file():
        pytest.skip("the tests run away from the checkout, without docs")
    return PAGE.read_text(encoding="utf-8")


def table() -> str:
    """Return the table of all keys as the page has it."""
    rows = ["| key | holds | without it | what it is for |", "|---|---|---|---|"]
    for section, keys in SECTIONS.items():
        if section != "inventory":
            rows += [row(f"{section}.{key.name}", key) for key in keys if section]
    names = ", ".join(f"`{key.name}`" for key in SECTIONS["inventory"])
    rows.append(f"| `inventory.KEY` | as there |  | {names} of [inventory.md](inventory.md) |")
    return "\n".join(rows) + "\n"


def row(name: str, key: Key) -> str:
    """Return a key's row."""
    if key.is_required:
        default = "**required**"
    elif key.shown_default is not None:
        default = key.shown_default
    else:
        default = "" if key.default in (None, ()) else f"`{key.default}`"
    return f"| `{name}` | {key.values} | {default} | {key.says} |"


def test_the_table_of_keys_is_that_of_the_code(page):
    """Every key with what it may hold, what counts without it, and what it is for; `python -m` writes it anew."""
    assert page.split(BEGIN)[1].split(END)[0] == table(), f"stale: run python -m {__name__}"


def test_the_examples_can_be_used(page, tmp_path):
    """Each stands for a section, or several, of a description."""
    examples = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= 3
    for text in examples:
        given = YAML(typ="safe").load(text)
        (tmp_path / "lab.yaml").write_text("nodes: []\n")
        assert load_description(written(tmp_path, dict(given)))


EXAMPLES = PAGE.parent / "examples"
FILES = {
    "systemd/flashferry-nightly.service": ["run"],
    "systemd/flashferry-nightly-reap.service": ["reap"],
    "nightly/flashferry-nightly.cron": ["run", "reap"],
    "nightly/github-actions.yml": ["run", "reap"],
    "nightly/gitlab-ci.yml": ["run", "reap"],
}


@pytest.mark.parametrize("name", FILES)
def test_the_files_of_timers_and_servers_call_what_there_is(page, name):
    """Each names the commands of ours that it is for, as they are called, and no login; those in YAML are YAML."""
    assert page
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    calls = re.findall(r"bin/flashferry (nightly (\w+) (?:/etc/flashferry/)?nightly\.yaml)", text)
    assert [verb for _, verb in calls] == FILES[name]
    assert text.count("bin/flashferry ") == len(calls)
    assert {verb for _, verb in calls} <= set(get_group(app).later)
    assert not re.search(r"PASSWORD[=:] *[^ $;]*\w", text.replace("${{ secrets.CML_PASSWORD }}", ""))
    assert "FLASHFERRY_STATE_DIR" in text
    if name.endswith(".yml"):
        assert YAML(typ="safe").load(text)


def test_each_file_of_timers_and_servers_is_shown_by_the_page(page):
    """Who reads the page finds all of them, and none that is not there."""
    shown = {found.split("/", 1)[-1] for found in re.findall(r"\]\(examples/(?:nightly/)?([\w./-]+)\)", page)}
    assert shown == {"systemd", *(path.name for path in (EXAMPLES / "nightly").iterdir())}


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    PAGE.write_text(head + BEGIN + table() + END + rest.split(END)[1], encoding="utf-8")
