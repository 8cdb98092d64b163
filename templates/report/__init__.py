"""The page of a report: template, style sheet and script, put into one file by `flashferry.reports.as_html`."""
