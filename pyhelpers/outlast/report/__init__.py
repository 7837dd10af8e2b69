"""What happened to an attempt, on one page for a person; docs/report.md."""
