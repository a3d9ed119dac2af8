"""Random numbers by address: the same on every device and in batches of any size.

A stream belongs to a purpose and an address of whole numbers, such as ("certify", seed, image, stage). Its numbers are
in rows: a row is a noisy copy in certification, an image or a draw in training. Row r is a pure function of the address
and of r. No block, batch, device or state is in it, so rows may be drawn in any portions, in any order and anywhere:

    stream = Stream.at("certify", seed, image, stage)
    stream.normal(0, 128, 3072)                     # standard normal [128, 3072]: rows 0 to 127
    stream.normal(100, 28, 3072, device="cuda")     # the last 28 of them, on a GPU

`words` are the bits themselves and `uniform`, `integers` and `permutation` what they are called. `Draws` takes them one
after the other, as a torch.Generator does. All are equal bit for bit everywhere, except `normal`: there log, cos and
sin may differ in their last bits from device to device.

The bits are those of Philox4x64-10 (Salmon et al. 2011), a function of a key and a counter, which passes all published
test batteries. The SHA-256 of the address gives the key and half of the counter; position and lane are the other half.
On a CPU numpy computes it; on other devices, 64-bit integers of torch do.

A normal number takes half a word, by Box and Muller (1958). A pair of numbers has its radius from the upper 63 bits of
a word, so that it reaches 9.3 deviations, and its angle from the lower 32 bits, mixed by a multiplication. The lower
bits change a radius below 6.5 deviations by less than float32 rounds it on average, so radius and angle are
independent up to rounding; beyond, with probability 5e-10, one of them determines the other.
"""

import hashlib
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from radii.smoothing.addresses import PHILOX, Purpose
from radii.smoothing.forward import runs_ahead

GROUP = 4
"""Words of 64 bits that one counter gives."""
LARGEST = (1 << 63) - 1
CPU_WORDS, DEVICE_WORDS = 1 << 16, 1 << 22
"""Words that are turned into normal numbers at once: few enough for the cache of a CPU, or the memory of a GPU."""

_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10
_MIX = 0x9E3779B1 - (1 << 32)
"""An odd number: products of 32 bits with it are all different, and their upper bits depend on all lower ones."""
_LOW = (1 << 32) - 1
_WORD = (1 << 64) - 1


class Counter(NamedTuple):
    """What Philox encrypts besides the position: the lane, and the half of the digest that is not the key."""

    lane: int
    high: tuple[int, int]


@dataclass(frozen=True)
class Stream:
    """Random numbers that belong to an address: `key` and `high` are its digest."""

    key: tuple[int, int]
    high: tuple[int, int]

    @classmethod
    def at(cls, purpose: Purpose, *address: int) -> "Stream":
        """Return the stream of a purpose and whole numbers of any size; no two addresses have the same."""
        if min(address, default=0) < 0:
            raise ValueError(f"the address {address} of a random stream has a number below 0, expected numbers >= 0")
        digest = hashlib.sha256(f"{PHILOX} {purpose} {' '.join(map(str, address))}".encode()).digest()
        first, second, third, fourth = (int.from_bytes(digest[at : at + 8], "little") for at in range(0, 32, 8))
        return cls((first, second), (third, fourth))

    def words(self, first: int, count: int, width: int, *, lane: int = 0, device: torch.device | str = "cpu") -> Tensor:
        """Return `count` rows of random 64-bit words, from row `first` on: int64 [count, width, rounded up to fours].

        Lanes are separate streams of one address. A row begins at its number times its rounded width, so every use of
        a lane has to have one width.
        """
        groups = -(-width // GROUP)
        if first < 0 or count < 0 or width < 1 or (first + count) * groups > LARGEST:
            raise ValueError(f"{count} rows of {width} words from row {first} on, expected numbers below 2**63")
        device = torch.device(device)
        if device.type == "cpu" or not counts_right(device):
            words = _words_by_numpy(self.key, Counter(lane, self.high), first * groups, count * groups)
            return words.view(count, GROUP * groups).to(device)
        positions = torch.arange(first * groups, (first + count) * groups, device=device)
        return philox(positions, self.key, Counter(lane, self.high)).view(count, GROUP * groups)

    def normal(
        self, first: int, count: int, width: int, *, lane: int = 0, device: torch.device | str = "cpu"
    ) -> Tensor:
        """Return rows of independent standard normal numbers, up to 9.3 in size: float32 [count, width]."""
        out = torch.empty(count, width, device=device)
        self.fill_normal(out, first, lane=lane)
        return out

    def fill_normal(self, out: Tensor, first: int, *, deviation: float = 1.0, lane: int = 0) -> None:
        """Fill float32 [row, number] with normal numbers of a standard deviation, from row `first` on."""
        pairs = GROUP * -(-out.shape[1] // (2 * GROUP))
        on_cpu = out.device.type == "cpu"
        step = max(1, (CPU_WORDS if on_cpu else DEVICE_WORDS) // pairs)
        transform = _box_muller_by_numpy if on_cpu else _box_muller
        for start in range(0, len(out), step):
            rows = out[start : start + step]
            transform(self.words(first + start, len(rows), pairs, lane=lane, device=out.device), rows, deviation)

    def uniform(
        self, first: int, count: int, width: int, *, lane: int = 0, device: torch.device | str = "cpu"
    ) -> Tensor:
        """Return rows of independent multiples of 2**-24 in [0, 1): float32 [count, width]."""
        bits = self.words(first, count, -(-width // 2), lane=lane, device=device).view(torch.int32)[:, :width]
        return bits.bitwise_right_shift(8).bitwise_and(0xFFFFFF).float().mul_(2.0**-24)

    def integers(
        self, first: int, count: int, width: int, below: int, *, lane: int = 0, device: torch.device | str = "cpu"
    ) -> Tensor:
        """Return rows of independent whole numbers from 0 to `below` - 1, up to 2**31: int64 [count, width].

        Each is equally likely up to a share of `below` * 2**-32.
        """
        if not 1 <= below <= 1 << 31:
            raise ValueError(f"whole numbers below {below}, expected a bound from 1 to 2**31")
        bits = self.words(first, count, -(-width // 2), lane=lane, device=device).view(torch.int32)[:, :width]
        return bits.long().bitwise_and_(_LOW).mul_(below).bitwise_right_shift_(32)

    def permutation(self, count: int, *, lane: int = 0, device: torch.device | str = "cpu") -> Tensor:
        """Return the numbers below `count` in random order: int64 [count]."""
        return self.words(0, 1, max(count, 1), lane=lane, device=device)[0, :count].argsort(stable=True)


class Part(NamedTuple):
    """Some rows of a stream, from row `first` on."""

    stream: Stream
    first: int
    rows: int
    lane: int = 0
    """Added to the lane that is asked for."""


@dataclass(frozen=True, eq=False)
class Joined(Stream):
    """Rows of several streams as those of one, drawn together: a GPU launches hundreds of operations for each draw.

    A row has the numbers that its own stream gives it.
    """

    parts: Sequence[Part]
    rows: Tensor
    """For every row, its number in its own stream, its lane, the half of the digest, and the keys of the rounds."""
    origins: Tensor
    """For every row, its part."""

    @classmethod
    def of(cls, parts: Sequence[Part], device: torch.device) -> "Joined":
        """Join the parts on a device."""
        table, start = list[list[int]](), 0
        for stream, first, count, lane in parts:
            end = start + count
            table.append([end, first - start, lane, *map(_signed, stream.high), *_round_keys(stream.key)])
            start = end
        placed = torch.tensor(table).to(device, non_blocking=runs_ahead(device))
        numbers = torch.arange(start, device=device)
        origins = torch.searchsorted(placed[:, 0].contiguous(), numbers, right=True)
        rows = placed[:, 1:].index_select(0, origins)
        rows[:, 0] += numbers
        return cls((0, 0), (0, 0), tuple(parts), rows, origins)

    def words(self, first: int, count: int, width: int, *, lane: int = 0, device: torch.device | str = "cpu") -> Tensor:
        groups = -(-width // GROUP)
        if width < 1 or any((part.first + part.rows) * groups > LARGEST for part in self.parts):
            raise ValueError(f"rows of {width} words from {len(self.parts)} streams, expected numbers below 2**63")
        number, own, *columns = self.rows[first : first + count].split(1, dim=1)
        positions = number * groups + torch.arange(groups, device=number.device)
        lanes, *high = [column.expand_as(positions) for column in (own + lane, *columns[:2])]
        return _encrypted(positions, lanes, high, columns[2:]).view(count, GROUP * groups).to(device)


class Draws:
    """Draws from a stream one after the other, on one device: every call takes the next two lanes.

    The first of several dimensions counts rows, so a draw of more rows begins with the draw of fewer.
    """

    def __init__(self, stream: Stream, device: torch.device | str = "cpu") -> None:
        self.stream = stream
        self.device = torch.device(device)
        self._lane = 0

    def normal(self, *shape: int) -> Tensor:
        """Draw standard normal numbers, float32."""
        return self.stream.normal(0, *_rows(shape), lane=self._next(), device=self.device).view(shape)

    def uniform(self, *shape: int) -> Tensor:
        """Draw multiples of 2**-24 in [0, 1), float32."""
        return self.stream.uniform(0, *_rows(shape), lane=self._next(), device=self.device).view(shape)

    def integers(self, below: int, *shape: int) -> Tensor:
        """Draw whole numbers from 0 to `below` - 1."""
        return self.stream.integers(0, *_rows(shape), below, lane=self._next(), device=self.device).view(shape)

    def permutation(self, count: int) -> Tensor:
        """Draw an order of the numbers below `count`."""
        return self.stream.permutation(count, lane=self._next(), device=self.device)

    def _next(self) -> int:
        lane, self._lane = self._lane, self._lane + 2
        return lane


class RowGenerator(torch.Generator):
    """A generator of training whose numbers for an image are those of a row of a stream: its place in the epoch.

    The images of a batch have the rows from `first` on, so batches, ranks and devices do not change what is drawn for
    an image. Every method takes new lanes. Functions of torch know no rows and draw from the generator's own state.
    """

    stream: Stream
    first: int
    _lane: int

    @classmethod
    def beside(cls, rng: torch.Generator, stream: Stream, first: int) -> "RowGenerator":
        """Return a generator of rows; functions of torch get from it what `rng` would give."""
        made = cls(rng.device)
        made.set_state(rng.get_state())
        made.stream, made.first, made._lane = stream, first, 0
        return made

    def normal(self, copies: int, count: int, width: int, *, deviation: float, device: torch.device | str) -> Tensor:
        """Draw normal numbers for copies of every image, each copy from a lane of its own: [copy, image, number]."""
        out = torch.empty((copies, count, width), device=device)
        lanes = [self.next_lane() for _ in range(copies)]
        if copies > 1 and out.device.type != "cpu" and counts_right(out.device):  # the same numbers in fewer launches
            parts = [Part(self.stream, self.first, count, lane) for lane in lanes]
            Joined.of(parts, out.device).fill_normal(out.view(-1, width), 0, deviation=deviation)
            return out
        for copy, lane in zip(out, lanes, strict=True):
            self.stream.fill_normal(copy, self.first, deviation=deviation, lane=lane)
        return out

    def uniform(self, count: int, width: int, *, device: torch.device | str = "cpu") -> Tensor:
        """Draw multiples of 2**-24 in [0, 1) for every image: float32 [image, number]."""
        return self.stream.uniform(self.first, count, width, lane=self.next_lane(), device=device)

    def integers(self, count: int, width: int, below: int) -> Tensor:
        """Draw whole numbers from 0 to `below` - 1 for every image: [image, number]."""
        return self.stream.integers(self.first, count, width, below, lane=self.next_lane())

    def next_lane(self) -> int:
        """Return the lane of the next draw, which is taken even if nothing is drawn."""
        lane, self._lane = self._lane, self._lane + 1
        return lane


def uniform_rows(
    count: int,
    width: int,
    rng: torch.Generator,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Draw numbers in [0, 1) for every image of a batch: [image, number]."""
    if isinstance(rng, RowGenerator):
        return rng.uniform(count, width, device=device).to(dtype)
    return torch.rand((count, width), generator=rng, dtype=dtype, device=device)


def _rows(shape: tuple[int, ...]) -> tuple[int, int]:
    return (1, shape[0]) if len(shape) == 1 else (shape[0], math.prod(shape[1:]))


def _box_muller(bits: Tensor, out: Tensor, deviation: float) -> None:
    """Turn words [row, pair] into normal numbers [row, number]; the words are overwritten."""
    angle = bits.to(torch.int32).mul_(_MIX).float().mul_(math.pi * 2.0**-31)
    radius = bits.bitwise_and_(LARGEST).bitwise_or_(1).float()
    radius = radius.mul_(2.0**-63).log_().mul_(-2.0).sqrt_().mul_(deviation)
    left, right = min(out.shape[1], bits.shape[1]), max(out.shape[1] - bits.shape[1], 0)
    torch.mul(radius[:, :left], angle.cos()[:, :left], out=out[:, :left])
    torch.mul(radius[:, :right], angle.sin_()[:, :right], out=out[:, left:])


def _box_muller_by_numpy(bits: Tensor, out: Tensor, deviation: float) -> None:
    """Do what `_box_muller` does, in less time: numpy's calls cost less, and memory is used again.

    Functions are torch's, for numpy's differ in their last bits; casts and products are exact or rounded the same.
    """
    radius, angle, cosine = torch.empty((3, *bits.shape), dtype=torch.float32)
    words, radii, angles, cosines, numbers = (tensor.numpy() for tensor in (bits, radius, angle, cosine, out))
    whole = cosines.view(np.int32)
    np.copyto(whole, words, casting="unsafe")
    np.multiply(whole, np.int32(_MIX), out=whole)
    np.copyto(angles, whole, casting="same_kind")
    np.multiply(angles, np.float32(math.pi * 2.0**-31), out=angles)
    np.bitwise_and(words, np.int64(LARGEST), out=words)
    np.bitwise_or(words, np.int64(1), out=words)
    np.copyto(radii, words, casting="same_kind")
    np.multiply(radii, np.float32(2.0**-63), out=radii)
    radius.log_()
    np.multiply(radii, np.float32(-2.0), out=radii)
    radius.sqrt_()
    np.multiply(radii, np.float32(deviation), out=radii)
    torch.cos(angle, out=cosine)
    angle.sin_()
    left = min(out.shape[1], bits.shape[1])
    right = out.shape[1] - left
    np.multiply(radii[:, :left], cosines[:, :left], out=numbers[:, :left])
    np.multiply(radii[:, :right], angles[:, :right], out=numbers[:, left:])


def philox(positions: Tensor, key: tuple[int, int], counter: Counter) -> Tensor:
    """Return the four words of every counter (position, lane, high): int64 [..., 4], on the device of the positions."""
    lane, *high = [torch.full_like(positions, _signed(word)) for word in (counter.lane, *counter.high)]
    return _encrypted(positions, lane, high, _round_keys(key))


def _round_keys(key: tuple[int, int]) -> list[int]:
    """Return the two keys of every round, as int64, one pair after the other."""
    return [
        _signed((word + number * step) & _WORD)
        for number in range(_ROUNDS)
        for word, step in zip(key, _WEYL, strict=True)
    ]


def _encrypted(positions: Tensor, lane: Tensor, high: Sequence[Tensor], keys: Sequence[Any]) -> Tensor:
    """Do the rounds of Philox; lanes and halves have the shape of the positions, `keys` are numbers or tensors."""
    factors = _factors(positions.device, positions.ndim)
    # The words 0 and 2 of a counter are multiplied, each by its factor; 1 and 3 are the other half.
    even = torch.stack([positions, high[0]])
    odd = torch.stack([lane, high[1]])
    for k0, k1 in zip(keys[::2], keys[1::2], strict=True):
        upper, lower = _product(even, *factors)
        even = torch.stack([upper[1] ^ odd[0] ^ k0, upper[0] ^ odd[1] ^ k1])
        odd = lower.flip(0)
    return torch.stack([even[0], odd[0], even[1], odd[1]], dim=-1)


@cache
def _factors(device: torch.device, dimensions: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the two multipliers and their lower and upper halves, each shaped to multiply [2, ...]."""
    with torch.inference_mode(False):
        # Filled there, for a copy to the device would be waited for.
        whole = torch.stack([torch.full((), _signed(factor), device=device) for factor in _MULTIPLIERS])
        whole = whole.view(2, *(1,) * dimensions)
        return whole, whole & _LOW, (whole >> 32) & _LOW


def _product(words: Tensor, factor: Tensor, factor_low: Tensor, factor_high: Tensor) -> tuple[Tensor, Tensor]:
    """Return the upper and the lower 64 bits of products of unsigned words, by halves: int64 wraps around."""
    low, high = words & _LOW, (words >> 32) & _LOW
    middle = high * factor_low + ((low * factor_low >> 32) & _LOW)
    cross = low * factor_high + (middle & _LOW)
    return high * factor_high + ((middle >> 32) & _LOW) + ((cross >> 32) & _LOW), words * factor


def _signed(word: int) -> int:
    """Return the int64 that has the bits of an unsigned word."""
    return word - (1 << 64) if word > LARGEST else word


class _Own(threading.local):
    """A generator of every thread."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(0)


_OWN = _Own()


def _words_by_numpy(key: tuple[int, int], counter: Counter, first: int, groups: int) -> Tensor:
    """Return the words of consecutive positions: int64 [4 * groups]."""
    number = first | counter.lane << 64 | counter.high[0] << 128 | counter.high[1] << 192
    number = (number - 1) % (1 << 256)  # numpy counts up before it computes
    _OWN.philox.state = {
        "bit_generator": "Philox",
        "state": {
            "counter": np.frombuffer(number.to_bytes(32, "little"), np.uint64),
            "key": np.array(key, np.uint64),
        },
        "buffer": np.zeros(GROUP, np.uint64),
        "buffer_pos": GROUP,
        "has_uint32": 0,
        "uinteger": 0,
    }
    return torch.from_numpy(_OWN.philox.random_raw(GROUP * groups).view(np.int64))


@cache
def counts_right(device: torch.device) -> bool:
    """Return whether a device's integers give the published answer; otherwise words are computed on the CPU."""
    pi = (0x452821E638D01377, 0xBE5466CF34E90C6C), Counter(0x13198A2E03707344, (0xA4093822299F31D0, 0x082EFA98EC4E6C89))
    try:
        found = philox(torch.tensor([0x243F6A8885A308D3], device=device), *pi).flatten().cpu().tolist()
    except (RuntimeError, TypeError, NotImplementedError):
        return False
    answer = (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6)
    return found == [_signed(word) for word in answer]
