"""The manual: its references made from the code, its figures and tables from measurements, its blocks run by tests."""
