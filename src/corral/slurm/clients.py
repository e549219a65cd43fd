"""All clusters that we speak to: one client and one poller each, made when they can be, replaced when their address or
issuer changes, closed when they go.

A cluster that hangs has a task of its own to hang in; nothing here waits for it but `close`.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime

from corral.slurm.clock import Clock
from corral.slurm.facts import Extra, NotAsked, Reachability, Unknown, View
from corral.slurm.http import HttpTransport
from corral.slurm.poller import Pace, Poller
from corral.slurm.rest import SlurmClient
from corral.slurm.tokens import TokenIssuer, Tokens
from corral.slurm.transport import Endpoint, Transport

CLOSE_WITHIN_S = 5.0


class Cluster:
    """One cluster's client, and the poller that looks at it for everyone."""

    def __init__(
        self, key: str, made_from: tuple[Endpoint, str], client: SlurmClient, poller: Poller, task: "asyncio.Task[None]"
    ) -> None:
        self.key = key
        self.client = client
        self.poller = poller
        self._made_from = made_from
        self._task = task

    def __repr__(self) -> str:
        return f"<Cluster {self.key} at {self._made_from[0].url}>"

    def is_made_from(self, endpoint: Endpoint, issuer: TokenIssuer) -> bool:
        return self._made_from == (endpoint, issuer.identity)

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await self.client.close()


class Clients:
    """Keys are `namespace/name` of whatever stands for the cluster; what they mean is the caller's business."""

    def __init__(
        self, clock: Clock, *, transport: Callable[[Endpoint], Transport] = HttpTransport, pace: Pace | None = None
    ) -> None:
        self._clock, self._transport, self._pace = clock, transport, pace
        self._clusters: dict[str, Cluster] = {}
        self._listeners: list[Callable[[str, View], None]] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._since_s, self._since = clock.monotonic_s(), clock.wall()
        self._left: dict[str, tuple[float, datetime]] = {}  # since when those that went are not asked

    def connect(self, key: str, endpoint: Endpoint, issuer: TokenIssuer) -> Cluster:
        """The cluster's client: the one that there is when address and issuer are the same, else a new one.

        Does not wait: the new one begins to look by itself, the old one is closed behind our back.
        """
        known = self._clusters.get(key)
        if known is not None and known.is_made_from(endpoint, issuer):
            return known
        self._close_later(known)
        client = SlurmClient(key, self._transport(endpoint), Tokens(issuer, self._clock), self._clock)
        poller = Poller(client, self._clock, self._pace)
        poller.subscribe(lambda view: self._tell(key, poller, view))
        task = asyncio.create_task(poller.run(), name=f"slurm-poller {key}")
        self._clusters[key] = Cluster(key, (endpoint, issuer.identity), client, poller, task)
        return self._clusters[key]

    def disconnect(self, key: str) -> None:
        """The cluster is gone, or its address or key are: what it would say is unknown from now on."""
        gone = self._clusters.pop(key, None)
        if gone is not None:
            self._left[key] = self._clock.monotonic_s(), self._clock.wall()
            self._close_later(gone)
            self._told(key, self.view(key))

    def get(self, key: str) -> Cluster | None:
        return self._clusters.get(key)

    def keys(self) -> frozenset[str]:
        return frozenset(self._clusters)

    def view(self, key: str) -> View:
        cluster = self._clusters.get(key)
        if cluster is None:
            since_s, since = self._left.get(key, (self._since_s, self._since))
            return Unknown(since_s=since_s, since=since, why=_no_client(key))
        return cluster.poller.view

    def reachability(self, key: str) -> Reachability:
        cluster = self._clusters.get(key)
        if cluster is not None:
            return cluster.poller.reachability
        return NotAsked(since=self._left.get(key, (0.0, self._since))[1], why=_no_client(key))

    async def fresh(
        self, key: str, max_age_s: float = 0.0, *, extras: Iterable[Extra] = (), within_s: float = 30.0
    ) -> View:
        """See `Poller.fresh`."""
        known = self._clusters.get(key)
        if known is None:
            return self.view(key)
        return await known.poller.fresh(max_age_s, extras=extras, within_s=within_s)

    async def current(self, key: str, extras: Iterable[Extra] = (), *, within_s: float = 30.0) -> View:
        """See `Poller.current`."""
        known = self._clusters.get(key)
        return self.view(key) if known is None else await known.poller.current(extras, within_s=within_s)

    def subscribe(self, callback: Callable[[str, View], None]) -> Callable[[], None]:
        """Call back when what is known of any cluster changes; the returned function ends it."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    async def close(self) -> None:
        for key in tuple(self._clusters):
            self._close_later(self._clusters.pop(key))
        await asyncio.gather(*self._closing)

    def _tell(self, key: str, poller: Poller, view: View) -> None:
        cluster = self._clusters.get(key)
        if cluster is not None and cluster.poller is poller:  # the last words of one that was replaced are not news
            self._told(key, view)

    def _told(self, key: str, view: View) -> None:
        for listener in tuple(self._listeners):
            listener(key, view)

    def _close_later(self, cluster: Cluster | None) -> None:
        if cluster is None:
            return
        task = asyncio.create_task(cluster.close(), name=f"close slurm {cluster.key}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _no_client(key: str) -> str:
    return f"cluster {key}: no address or no token issuer is known, so it cannot be asked"
