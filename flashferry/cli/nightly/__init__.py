"""`flashferry nightly ...`: nightly lab runs, one module per command; the work is in `flashferry.nightly`."""

from __future__ import annotations

from flashferry.cli.command_line import app_of

app = app_of(
    "Take a lab up, stage on it, judge the night, leave nothing running.",
    {
        "run": (
            "flashferry.cli.nightly.run:run",
            "Take a lab up, run the tool on it, judge the night, and remove the lab, whatever happens.",
        ),
        "reap": ("flashferry.cli.nightly.reap:reap", "Remove labs that killed nights left."),
        "init": (
            "flashferry.cli.nightly.begin:init",
            "Write a commented description of a night to begin with; with --check, check one.",
        ),
        "history": (
            "flashferry.cli.nightly.history:history",
            "Show how each series went over the last nights, and what each night came to.",
        ),
        "record": (
            "flashferry.cli.nightly.record:record",
            "Record the shape of a controller's answers, and what in it was unknown.",
        ),
    },
)
