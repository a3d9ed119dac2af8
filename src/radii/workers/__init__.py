"""Who counts votes: this process, a pool of processes or an executor."""
