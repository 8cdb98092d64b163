"""Template, style sheet and script of a report page; `flashferry.reports.as_html` combines them into one file."""
