"""One device's way through a run, composed of parts that each do one thing; `way` puts them together.

Each part is handed those that it needs. What changes is little and has a name: the record (`record_keeper`), what the
copies have done so far (`tickets.CopyTraces`), the lines in force (`tuning`), the copy slot's state (`waiting`), and
whether the session was ended meanwhile (`login`).
"""
