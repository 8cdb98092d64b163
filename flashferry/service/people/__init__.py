"""People of the service: who is asking, whether he may, and how he signs in.

`guard` stands in front of every route and holds the table of access; `identity` finds out who asks; the rest is how
people, their grants, sessions and tokens come to be and end.
"""
