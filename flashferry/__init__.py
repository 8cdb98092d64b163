"""Ferries OS images to the flash of Cisco IOS and IOS-XE devices, fast, and leaves nothing behind but the image."""

from __future__ import annotations

import os
import sys

PACKAGES = ("inventory", "tasks", "ftpserver", "templates")
"""What is installed beside this package; scripts of network engineers like to have files of these names, too."""

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 -- pathlib costs a command's start


class PackageShadowed(ImportError):
    """A file of the user's would be imported in place of a package of ours."""


def check_packages() -> None:
    """Check that the packages beside this one are ours, before any module of ours imports from them.

    Raises:
        PackageShadowed: A module of that name was imported before, or stands in front of ours on `sys.path`.
    """
    for name in PACKAGES:
        found = _found(name)
        ours = os.path.join(_HOME, name, "__init__.py")  # noqa: PTH118 -- as above
        if found is not None and not _is_same(found, ours):
            raise PackageShadowed(
                f"flashferry: expected its own package '{name}' in {_HOME}, found {found} in its place: rename that, "
                "put the script into another folder, or run it by 'python -P'",
                name=name,
                path=found,
            )


def _found(name: str) -> str | None:
    """Return the file or folder that an import of a name is answered with; None where nothing is found."""
    if (module := sys.modules.get(name)) is not None:
        spec = module.__spec__
        file = getattr(module, "__file__", None)
    else:
        specs = (finder.find_spec(name, None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((spec for spec in specs if spec is not None), None)
        file = None
    if file is None and spec is not None:
        # A folder without an `__init__.py` has no origin.
        file = spec.origin or next(iter(spec.submodule_search_locations or ()), None)
    return file


def _is_same(found: str, ours: str) -> bool:
    try:
        return found == ours or os.path.samefile(found, ours)  # noqa: PTH121 -- as above
    except OSError:
        return False


def _is_command() -> bool:
    """Return whether this process is our command line, which prints an error as one sentence."""
    # While Python looks for the module of `-m`, the first argument is that word.
    is_module = sys.argv[:1] == ["-m"] and "flashferry" in sys.orig_argv
    return is_module or os.path.basename(next(iter(sys.argv), "")) == "flashferry"  # noqa: PTH119 -- as above


try:
    check_packages()
except PackageShadowed as shadowed:
    if not _is_command():
        raise
    sys.stderr.write(f"{shadowed}\n")
    sys.exit(2)
