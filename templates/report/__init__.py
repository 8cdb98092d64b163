"""The page of a report: template, style sheet and script, put into one file by `staging.reports.as_html`."""
