"""The HTML and JSON report, both from one model."""
