"""What holds for every test."""

import asyncio

from hypothesis import HealthCheck, settings

# Up to Python 3.13 the first look at "the current event loop" makes one, which pytest-asyncio then never closes.
asyncio.set_event_loop(None)

# A busy machine is slow, which is no fault of the code under test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
