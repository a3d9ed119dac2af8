"""A pretended accelerator: real values on the CPU behind a device that counts what a GPU would have to wait for."""
