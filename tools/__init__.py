"""Tools for development: imports and sizes of the source, fuzzing, stress tests, the manual."""
