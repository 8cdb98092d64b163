"""Cisco Modeling Labs as what takes labs up, over its REST interface and by Cisco's own client (the extra `cml`).

`backend` is the protocol's side; below it `controller` asks, tries again and reports errors in one sentence,
`labs`, `captures`, `down` and `images` know the calls, `record` writes down what a real controller says. Cisco's client
logs in, renews the login and is used where its methods do what they say; it is imported late, for nights elsewhere do
without it. Nothing here was ever run against a real controller: what is marked unknown is what `record` is made for.
"""
