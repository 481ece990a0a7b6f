"""How often one caller may ask: a bucket of tokens each, which a clock fills."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from threading import Lock

from waygraph.registry.errors import InvalidSetting, TooManyRequests


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float


class RateLimit:
    """At most `burst` requests at once, and `per_minute` in the long run, of each caller; 0 a minute: no limit.

    It counts in this process alone. So many callers are remembered (`max_callers`); then the one that asked longest
    ago is forgotten, whose bucket is most likely full again. `clock` tells seconds that never run back. Threads may
    share it. Raises InvalidSetting for less than one request at once, or a rate that is no number ≥ 0.
    """

    def __init__(
        self,
        per_minute: float,
        burst: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        max_callers: int = 10_000,
    ) -> None:
        if not math.isfinite(per_minute) or per_minute < 0 or burst < 1 or max_callers < 1:
            raise InvalidSetting(
                f"no limit can be made of {per_minute:g} requests a minute, {burst} at once, {max_callers} callers: "
                "expected ≥ 0, ≥ 1 and ≥ 1"
            )
        self._per_s, self._burst, self._clock = per_minute / 60.0, burst, clock
        self._max_callers = max_callers
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = Lock()

    def take(self, caller_id: str) -> None:
        """Counts one request. Raises TooManyRequests, and counts nothing, if there is none left."""
        if self._per_s:
            with self._lock:
                bucket = self._filled(caller_id)
                self._require(bucket)
                bucket.tokens -= 1.0

    def __len__(self) -> int:
        """How many callers are remembered."""
        return len(self._buckets)

    def _filled(self, caller_id: str) -> _Bucket:
        """The caller's bucket as it is now, as the one that asked last."""
        now_s = self._clock()
        bucket = self._buckets.get(caller_id)
        if bucket is None:
            bucket = self._buckets[caller_id] = _Bucket(float(self._burst), now_s)
            if len(self._buckets) > self._max_callers:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(caller_id)
            bucket.tokens = min(bucket.tokens + (now_s - bucket.at_s) * self._per_s, float(self._burst))
            bucket.at_s = now_s
        return bucket

    def _require(self, bucket: _Bucket) -> None:
        if bucket.tokens < 1.0:
            raise TooManyRequests((1.0 - bucket.tokens) / self._per_s)


class FailureLimit:
    """How often one address may call without being known: guessing and noise are slowed.

    A good key or token is never refused for what others at its address did, such as behind a proxy: what guesses in
    vain gets no answer, and keys are too long to be guessed in time. Of IPv6 a whole /64 is one client.
    """

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit

    def failed(self, address: str) -> None:
        """Counts one failure. Raises TooManyRequests for one too many."""
        self._limit.take(_client(address))


@lru_cache(maxsize=1024)
def _client(address: str) -> str:
    """The address, or of IPv6 the network that one client has; another text as it is."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or f"{IPv6Address(int(parsed) >> 64 << 64)}/64")
    return str(parsed)
