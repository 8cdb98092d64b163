"""The pages of the staging service: templates, one style sheet, and the scripts that keep tables live.

`flashferry.service.pages.frame` puts them together; `base.html` is around all, `parts.html` has what they share.
"""
