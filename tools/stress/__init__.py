"""Stress tests: faults, fuzz and races, in numbered items; see docs/reliability.md."""
