"""Read the description of a night, `nightly.yaml`: keys, values, logins, and a template.

`reading` reads a file into the `NightDescription` of `values`; every key is in a table of `topology_keys`, `work_keys`
or `reading`, with which the documentation is compared.
"""
