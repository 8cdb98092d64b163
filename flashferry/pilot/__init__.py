"""The pilot: one spare router taken through the verbs, and what that shows of the facts that this product rests on.

It drives nothing by itself: each step is a function of `flashferry.api`. What is its own is pure: sessions read from
their transcripts (`exchanges`), names and addresses replaced (`anonymise`), facts judged (`facts`), and the page
(`page`).
"""
