"""The numbered items of the long run."""

from tools.stress import (
    about,
    checked,
    cluster,
    counted,
    crashes,
    files,
    floats,
    races,
    ranks,
    reported,
    stops,
    strangers,
)
from tools.stress.outcome import Item

ITEMS: dict[int, Item] = {
    1: counted.miscounts,
    2: counted.dependent,
    3: counted.folding,
    4: counted.threads,
    5: about.other_data,
    6: about.identities,
    7: about.engine_choice,
    8: about.mutations,
    9: about.seeds,
    10: checked.verification,
    11: reported.dashes,
    12: reported.unlike,
    13: reported.rounding,
    14: floats.last_bits,
    15: races.writers,
    16: stops.stops,
    17: crashes.crashes,
    18: files.readers,
    19: strangers.bars,
    20: strangers.strangers,
    21: strangers.security,
    22: cluster.killed_workers,
    23: ranks.ranks,
}
"""By the numbers of docs/reliability.md."""
