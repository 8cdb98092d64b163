"""What all tests share: tests of the lab skip with the reason where it cannot run, and fail in CI."""

import os

import pytest

from lab.namespaces import probe


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("lab") is None:
        return
    able = probe()
    if not able.may_run:
        if os.environ.get("CI") == "true":
            pytest.fail(f"The lab must run in CI. {able.reason}")
        pytest.skip(able.reason)
