"""docs/api.md tells what is there: its examples import and call by names and arguments that exist."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator

import pytest

from flashferry import api

Page = Callable[[str], str]


@pytest.fixture
def page(documentation: Page) -> str:
    return documentation("api.md")


def examples(page: str) -> Iterator[ast.Module]:
    for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        yield ast.parse(text)


def test_every_job_is_on_the_page(page: str) -> None:
    """Each function that does something; what only prepares one may be left to its docstring."""
    functions = {name for name in api.__all__ if inspect.isfunction(getattr(api, name))}
    helpers = {
        name for name in functions if name.endswith(("_notices", "_code", "_reported_by")) or name.startswith("check_")
    }
    helpers |= {"checked_image", "job_for_resume", "check_host", "image_catalogue", "journal_in", "whole_fleet"}
    helpers |= {"with_credentials", "write_report"}
    assert {name for name in functions - helpers if not re.search(rf"\b{name}\b", page)} == set()


def test_the_examples_import_what_is_there(page: str) -> None:
    """From `flashferry.api` above all."""
    found = [node for one in examples(page) for node in ast.walk(one) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in found if node.module == "flashferry.api" for alias in node.names}
    assert names <= set(api.__all__)
    assert len(names) > 20


def test_the_examples_call_with_arguments_that_exist(page: str) -> None:
    """A call of a public name fits its signature."""
    tried = 0
    for one in examples(page):
        for call in ast.walk(one):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in api.__all__:
                given = inspect.signature(getattr(api, call.func.id))
                given.bind_partial(*call.args, **{word.arg: word.value for word in call.keywords if word.arg})
                tried += 1
    assert tried > 20


def test_the_table_names_what_is_there(page: str) -> None:
    """Each function of the table, with what it returns where that is a class of ours."""
    named = set(re.findall(r"`([A-Za-z_]+)[(`]", page.split("| job |")[1].split("\n\n", maxsplit=1)[0]))
    assert named - set(api.__all__) == set()
