"""The service's configuration, `service.toml`: read, checked key by key, and a template to begin with.

`tables` says what it may hold, `values` reads single values, `reading` makes settings of a file.
"""
