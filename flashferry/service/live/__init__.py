"""What goes on, told once a second: read from the journal and the events of runs, worded once, sent to all browsers.

`scene` has the values, `follow` the events of a run, `look` reads both, `needs` says who must act, `board` makes rows
of words of a scene and tells what changed between two, and `stream` sends that to whoever listens. The look is made
while somebody listens or asks, and costs nothing else.
"""
