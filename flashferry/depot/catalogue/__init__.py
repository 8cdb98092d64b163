"""A depot's catalogue: a folder in which an image has its name only once it is proven to the byte.

What is under way has a hidden name and a state; what was proven has a proof beside it, which ends with the file's state
that it belongs to. Who stages from here asks for a proof, and trusts no name.
"""
