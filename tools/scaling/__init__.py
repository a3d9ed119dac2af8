"""The time and price of certification on machines that are not here: measured costs and simulated workers."""
