"""The jobs as functions: check, probe, plan, stage, resume, recover, report, and what runs do and did.

They take frozen values and callables for events, and return values: nothing here parses a command line, prints or ends
the process. The command line is made of them, and so is whatever else drives flashferry. docs/api.md shows each.

A name is imported when it is asked for: a reader of reports does not wait for the import of what talks to devices.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashferry.api.activating import ActivationOptions, ActivationPlan, activate, activation_plan
    from flashferry.api.checking import CheckResult, ProbeOptions, check, probe, read_image
    from flashferry.api.depots import (
        SyncedImage,
        SyncRequest,
        SyncResult,
        VerifyResult,
        depot_list,
        depot_sync,
        depot_verify,
        known_depot_paths,
        probe_depot_path,
    )
    from flashferry.api.fleet import (
        FleetOptions,
        journal_in,
        open_fleet,
        state_folder,
        transcripts_reported_by,
        whole_fleet,
        with_credentials,
    )
    from flashferry.api.jobs import (
        StageJob,
        dead_run_notices,
        job_for_image,
        job_for_plan,
        pace_notices,
    )
    from flashferry.api.planning import PlanResult, image_rules, plan
    from flashferry.api.readiness import CleanRequest, CleanResult, ReadyRequest, ReadyResult, clean, ready
    from flashferry.api.recovering import (
        RecoveryResult,
        forget,
        job_for_resume,
        recover,
        resume,
        resume_failure_code,
    )
    from flashferry.api.reports import (
        ReportFormat,
        check_is_no_plan,
        report,
        report_exit_code,
        report_text,
        write_report,
    )
    from flashferry.api.runs import DeviceHistory, Steered, approve, device_history, history, status, steer, stored_run
    from flashferry.api.serving import ServeOptions, Serving, image_catalogue, serve
    from flashferry.api.staging import DryRunResult, carry_out, dry_run, stage, stage_fleet, wait_for_window
    from flashferry.api.state import Backup, Pruned, StateCheck, back_up, check_state, prune, put_back
    from flashferry.api.watching import View, Watchers, roster_of, watchers
    from flashferry.depot.catalogue.part import Held, HeldState
    from flashferry.depot.daemon import Depot
    from flashferry.depot.options import DepotOptions
    from flashferry.depot.probing.findings import PathFound, ProbeAsked
    from flashferry.depot.probing.methods import SshAccess
    from flashferry.depot.probing.web import WebSource
    from flashferry.depot.status import DepotFound, catalogue_summary, find_depot
    from flashferry.depot.sync.filling import SyncPhase, SyncProgress
    from flashferry.depot.sync.rsync import RsyncSource
    from flashferry.depot.sync.source import Login, Source
    from flashferry.images.safe_open import checked_image
    from flashferry.model.exit_codes import ExitCode, run_exit_code
    from flashferry.model.plan_file import load_plan, save_plan
    from flashferry.model.policy import ServerPlace, StagePolicy, check_resumable
    from flashferry.planning.fleet_planner import PlanRequest
    from flashferry.reports.thresholds import parse_threshold
    from flashferry.run.host_check import Finding, look_at_host
    from flashferry.run.request import RunOptions

_PLACES = {
    "activating": (
        "ActivationOptions",
        "ActivationPlan",
        "activate",
        "activation_plan",
    ),
    "depots": (
        "SyncRequest",
        "SyncResult",
        "SyncedImage",
        "VerifyResult",
        "depot_list",
        "depot_sync",
        "depot_verify",
        "known_depot_paths",
        "probe_depot_path",
    ),
    "checking": (
        "CheckResult",
        "ProbeOptions",
        "check",
        "probe",
        "read_image",
    ),
    "readiness": (
        "CleanRequest",
        "CleanResult",
        "ReadyRequest",
        "ReadyResult",
        "clean",
        "ready",
    ),
    "fleet": (
        "FleetOptions",
        "journal_in",
        "open_fleet",
        "state_folder",
        "transcripts_reported_by",
        "whole_fleet",
        "with_credentials",
    ),
    "jobs": (
        "StageJob",
        "dead_run_notices",
        "job_for_image",
        "job_for_plan",
        "pace_notices",
    ),
    "planning": (
        "PlanResult",
        "image_rules",
        "plan",
    ),
    "recovering": (
        "RecoveryResult",
        "forget",
        "job_for_resume",
        "recover",
        "resume",
        "resume_failure_code",
    ),
    "reports": ("ReportFormat", "check_is_no_plan", "report", "report_exit_code", "report_text", "write_report"),
    "runs": (
        "DeviceHistory",
        "Steered",
        "approve",
        "device_history",
        "history",
        "status",
        "steer",
        "stored_run",
    ),
    "serving": (
        "ServeOptions",
        "Serving",
        "image_catalogue",
        "serve",
    ),
    "staging": (
        "DryRunResult",
        "carry_out",
        "dry_run",
        "stage",
        "stage_fleet",
        "wait_for_window",
    ),
    "state": (
        "Backup",
        "Pruned",
        "StateCheck",
        "back_up",
        "check_state",
        "prune",
        "put_back",
    ),
    "watching": (
        "View",
        "Watchers",
        "roster_of",
        "watchers",
    ),
    "flashferry.depot.catalogue.part": (
        "Held",
        "HeldState",
    ),
    "flashferry.depot.daemon": ("Depot",),
    "flashferry.depot.status": (
        "DepotFound",
        "catalogue_summary",
        "find_depot",
    ),
    "flashferry.depot.options": ("DepotOptions",),
    "flashferry.depot.sync.filling": (
        "SyncPhase",
        "SyncProgress",
    ),
    "flashferry.depot.sync.rsync": ("RsyncSource",),
    "flashferry.depot.sync.source": (
        "Login",
        "Source",
    ),
    "flashferry.depot.probing.findings": (
        "PathFound",
        "ProbeAsked",
    ),
    "flashferry.depot.probing.methods": ("SshAccess",),
    "flashferry.depot.probing.web": ("WebSource",),
    "flashferry.model.exit_codes": (
        "ExitCode",
        "run_exit_code",
    ),
    "flashferry.images.safe_open": ("checked_image",),
    "flashferry.model.plan_file": (
        "load_plan",
        "save_plan",
    ),
    "flashferry.model.policy": (
        "ServerPlace",
        "StagePolicy",
        "check_resumable",
    ),
    "flashferry.planning.fleet_planner": ("PlanRequest",),
    "flashferry.reports.thresholds": ("parse_threshold",),
    "flashferry.run.host_check": (
        "Finding",
        "look_at_host",
    ),
    "flashferry.run.request": ("RunOptions",),
}
"""Public names by the module that has them: one of this package, or of a room below it."""

_MODULES = {
    name: module if "." in module else f"{__name__}.{module}" for module, names in _PLACES.items() for name in names
}

__all__ = [
    "ActivationOptions",
    "ActivationPlan",
    "Backup",
    "CheckResult",
    "CleanRequest",
    "CleanResult",
    "Depot",
    "DepotFound",
    "DepotOptions",
    "DeviceHistory",
    "DryRunResult",
    "ExitCode",
    "Finding",
    "FleetOptions",
    "Held",
    "HeldState",
    "Login",
    "PathFound",
    "PlanRequest",
    "PlanResult",
    "ProbeAsked",
    "ProbeOptions",
    "Pruned",
    "ReadyRequest",
    "ReadyResult",
    "RecoveryResult",
    "ReportFormat",
    "RsyncSource",
    "RunOptions",
    "ServeOptions",
    "ServerPlace",
    "Serving",
    "Source",
    "SshAccess",
    "StageJob",
    "StagePolicy",
    "StateCheck",
    "Steered",
    "SyncPhase",
    "SyncProgress",
    "SyncRequest",
    "SyncResult",
    "SyncedImage",
    "VerifyResult",
    "View",
    "Watchers",
    "WebSource",
    "activate",
    "activation_plan",
    "approve",
    "back_up",
    "carry_out",
    "catalogue_summary",
    "check",
    "check_is_no_plan",
    "check_resumable",
    "check_state",
    "checked_image",
    "clean",
    "dead_run_notices",
    "depot_list",
    "depot_sync",
    "depot_verify",
    "device_history",
    "dry_run",
    "find_depot",
    "forget",
    "history",
    "image_catalogue",
    "image_rules",
    "job_for_image",
    "job_for_plan",
    "job_for_resume",
    "journal_in",
    "known_depot_paths",
    "load_plan",
    "look_at_host",
    "open_fleet",
    "pace_notices",
    "parse_threshold",
    "plan",
    "probe",
    "probe_depot_path",
    "prune",
    "put_back",
    "read_image",
    "ready",
    "recover",
    "report",
    "report_exit_code",
    "report_text",
    "resume",
    "resume_failure_code",
    "roster_of",
    "run_exit_code",
    "save_plan",
    "serve",
    "stage",
    "stage_fleet",
    "state_folder",
    "status",
    "steer",
    "stored_run",
    "transcripts_reported_by",
    "wait_for_window",
    "watchers",
    "whole_fleet",
    "with_credentials",
    "write_report",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a public name, of the module that has it.

        Raises:
            AttributeError: There is no such name.
        """
        if (module := _MODULES.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(module), name)
        return found

    def __dir__() -> list[str]:
        """Return the public names."""
        return sorted(_MODULES)
