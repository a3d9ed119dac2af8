"""Denoisers map an image to an image of its shape: one file per family, one public function per denoiser."""
