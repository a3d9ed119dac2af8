"""The numbered items of the long run."""

from tools.stress import about, counted, files
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
    18: files.readers,
}
