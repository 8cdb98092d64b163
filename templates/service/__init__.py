"""Templates, style sheet and scripts of the service's pages, rendered by `flashferry.service.pages.frame`.

`base.html` is the frame of all pages, `parts.html` has shared macros.
"""
