"""Metrics, tables, figures and the HTML page of certified accuracy. Nothing here needs torch."""
