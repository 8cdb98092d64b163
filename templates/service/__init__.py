"""Templates, style sheet and scripts of the service's pages.

`flashferry.service.pages.frame` renders them; `base.html` is the frame of all pages, `parts.html` has shared parts.
"""
