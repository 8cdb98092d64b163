"""Parsers of device output: TextFSM templates and typed rows. Pure.

Templates of ntc-templates are used where they parse well. Output that is not understood yields no row.
"""
