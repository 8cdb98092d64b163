"""Measures a path between a depot and where it gets its images: its ceilings, and each way of copying over it.

Figures and verdicts are pure (`figures`, `offers`, `methods`, `host_block`); what starts processes stands apart
(`watching`, `far`, `ceilings`, `rounds`). The lab's experiments measure by the same parts.
"""
