"""Serve a run: answer requests about pictures, with a record of every answer that others can check."""
