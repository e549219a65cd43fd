"""Times by crontab's five fields, in UTC. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

DAYS_AHEAD_MAX = 366 * 8  # the 29th of February comes at least so often
FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))


class BadCron(ValueError):
    pass


class Cron(msgspec.Struct, frozen=True):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either_day: bool  # as crontab has it: where both days are given, one of them is enough

    def next_after(self, moment: datetime) -> datetime | None:
        """None for a day that never comes, as the 30th of February."""
        first = moment.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        for number in range(DAYS_AHEAD_MAX):
            day = first if number == 0 else _midnight(first) + timedelta(days=number)
            found = next(self._times(day), None)
            if found is not None:
                return found
        return None

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """The last time within (after, until]."""
        end, day = until.astimezone(UTC), _midnight(until.astimezone(UTC))
        while day + timedelta(days=1) > after:
            found = [time for time in self._times(day) if after < time <= end]
            if found:
                return found[-1]
            day -= timedelta(days=1)
        return None

    def _times(self, since: datetime) -> Iterator[datetime]:
        """Of the day of `since`, from then on."""
        if not self._is_day(since):
            return
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                time = since.replace(hour=hour, minute=minute, second=0, microsecond=0)
                if time >= since:
                    yield time

    def _is_day(self, day: datetime) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        fits = of_month or of_week if self.either_day else of_month and of_week
        return fits and day.month in self.months


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def parse_cron(text: str) -> Cron:
    words = text.split()
    if len(words) != len(FIELDS):
        names = ", ".join(name for name, _, _ in FIELDS)
        raise BadCron(f"expected five fields ({names}), found {len(words)} in {text!r}")
    values = [_values(word, *field) for word, field in zip(words, FIELDS, strict=True)]
    weekdays = frozenset(day % 7 for day in values[4])
    either = not words[2].startswith("*") and not words[4].startswith("*")
    return Cron(values[0], values[1], values[2], values[3], weekdays, either)


def _values(word: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        numbers = (first, last or (str(high) if step else first), step or "1")
        if not all(number.isdecimal() for number in numbers):
            raise BadCron(f"{name}: {part!r} is no number, range or step")
        begin, end, every = map(int, numbers)
        if not (low <= begin <= end <= high and every >= 1):
            raise BadCron(f"{name}: {part!r} is not within {low} to {high}")
        found |= set(range(begin, end + 1, every))
    return frozenset(found)
