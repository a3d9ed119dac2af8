"""Certification, prediction, verification and attacks."""
