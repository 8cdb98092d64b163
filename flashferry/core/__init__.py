"""What everything else stands on: errors with a kind, a reason and a hint; the door to the outside; files and codecs.

Every room may import this one, and this one imports none. An error says what was expected, what was seen and what to
do next; what leaves the process, as a line, a file or a page, passes `flashferry.core.redaction`, which masks secrets
by their value.
"""
