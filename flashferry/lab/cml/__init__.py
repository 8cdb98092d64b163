"""A stand-in of a Cisco Modeling Labs controller: its REST interface over HTTPS, with nodes behind one Protocol.

It is a package apart, as every stand-in: it imports nothing of the product and nothing of Cisco's client, so that both
can be judged by it. docs/lab.md says what it does, where that is known from, and what it cannot know.

- `flashferry.lab.cml.runtime`: what a lab's nodes are made of, behind a Protocol.
- `flashferry.lab.cml.standin`: a running controller, in the caller's process.
"""
