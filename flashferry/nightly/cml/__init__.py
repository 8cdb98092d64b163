"""Run labs on Cisco Modeling Labs (CML) over its REST interface, with Cisco's client (the extra `cml`).

`backend` offers what nights need; `controller` sends requests, retries and reports errors; `labs`, `captures`, `images`
and `preflight` hold the calls; `record` writes down what a real controller answers. Cisco's client handles logins and
is imported late. Nothing here was run against a real controller yet; what is marked unknown is for `record` to find
out.
"""
