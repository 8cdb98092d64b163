"""What `check` found beside the table: mode, members, who may do what, and what the operator should know."""

from __future__ import annotations

from flashferry.tables import console
from staging.fleet_check import CheckRecord
from tasks.check import CheckReport


def print_check_notes(records: tuple[CheckRecord, ...]) -> None:
    """Print the facts that no column has, and the notes, one line each."""
    out = console()
    for record in records:
        if record.check is None:
            continue
        out.print(f"{record.host}: {facts_line(record.check)}")
        for note in record.check.notes:
            out.print(f"{record.host}: note: {note}", style="yellow")


def facts_line(found: CheckReport) -> str:
    """Return boot mode, members, configuration, privilege and proof in one line."""
    mode = "install mode" if found.version.install_mode else "bundle mode"
    parts = [mode if found.version.image_path else "boot mode not told"]
    if len(found.version.members) > 1:
        room = ", ".join(f"{one.file_system} {one.free_bytes / 1e6:,.0f} MB free" for one in found.members)
        parts.append(f"stack of {len(found.version.members)}" + (f" ({room})" if room else ""))
    if found.configuration is not None:
        saved = {True: "saved", False: "not saved", None: "saved or not: not told"}[found.configuration.saved]
        parts.append(f"configuration {saved}")
    if found.authorization is not None and found.authorization.level is not None:
        parts.append(f"privilege {found.authorization.level}")
    if found.proof is not None:
        proof = found.proof
        speed = f", {proof.hash_bytes_per_s / 1e6:.1f} MB/s" if proof.hash_bytes_per_s else ""
        parts.append(f"image there, {proof.algorithm} proven in {proof.duration_s:.1f} s{speed}")
    return "; ".join(parts)
