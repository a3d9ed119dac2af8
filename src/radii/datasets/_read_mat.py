"""A script that reads X and y of a .mat file and writes them as .npy files, within a limit of memory.

A malicious file can crash scipy's reader, so svhn.py runs this in a separate process.
"""

import resource
import sys

import numpy as np
import scipy.io


def main(source: str, folder: str, memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    content = scipy.io.loadmat(source, variable_names=("X", "y"))
    for name in ("X", "y"):
        if isinstance(content.get(name), np.ndarray):
            np.save(f"{folder}/{name}.npy", content[name], allow_pickle=False)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
