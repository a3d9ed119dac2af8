"""Processes that find each other, as threads with one store."""

from concurrent.futures import ThreadPoolExecutor

from torch._C._distributed_c10d import HashStore, Store

from radii.training.meeting import agreed_word


def words(store: Store, size: int) -> list[str]:
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda rank: agreed_word(store, rank, size), reversed(range(size))))


def test_all_get_one_word() -> None:
    assert len(set(words(HashStore(), 4))) == 1


def test_names_and_words_of_an_earlier_attempt_are_not_taken() -> None:
    store = HashStore()
    first = words(store, 3)
    for rank in (1, 2):  # these died before they were welcomed
        store.set(f"radii/rank/{rank}", "dead")
    second = words(store, 3)
    assert len(set(second)) == 1
    assert set(first).isdisjoint(second)
