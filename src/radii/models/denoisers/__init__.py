"""Denoisers, one family a file, every public function of a file one: they map an image to an image of its shape."""
