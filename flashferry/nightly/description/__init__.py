"""The description of a night, `nightly.yaml`: its keys, its values, the logins it names, a template to begin with.

`reading` reads a file to a `NightDescription` of `values`, which `settings` of the night come from; every key is in one
of the tables of `topology_keys`, `work_keys` and `reading` itself, which the documentation is held against.
"""
