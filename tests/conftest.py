"""What holds for every test."""

import asyncio

# Up to Python 3.13 the first look at "the current event loop" makes one, which pytest-asyncio then never closes.
asyncio.set_event_loop(None)
