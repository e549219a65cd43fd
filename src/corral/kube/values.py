"""The small languages inside Kubernetes objects: quantities, durations, int-or-string, times. All of it is here.

Objects hold these as the server writes them (text or a number), so decoding costs nothing extra; the functions here
turn them into Python values and back. Nothing here knows an object or a field.

The type of a field says which language it speaks, and the server may answer in other words than we used: a Quantity
sent as "1000m" comes back as "1", a time loses its fraction. Whoever compares a desired object with an actual one
first passes both through `corral.kube.canonical.canonical`, which knows the fields to rewrite from their types.

    Quantity      "500m", "2Gi", 4           parse_quantity -> Decimal, format_quantity, canonical_quantity
    Duration      "1h5m0s"                   parse_duration -> timedelta, format_duration
    IntOrString   3, "25%", "http"           resolve_percentage -> int
    datetime      "2026-01-31T12:00:00Z"     decoded and encoded by msgspec; the server keeps whole seconds
    MicroTime     "2026-01-31T12:00:00.000000Z", always six digits (Lease, Event): micro_time, parse_time
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_UP, Context, Decimal
from functools import lru_cache
from typing import Annotated, NewType

from msgspec import Meta, ValidationError, convert

# As controller-gen writes it, so that a user may write `cpu: 4` as well as `cpu: 500m`.
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
DURATION_PATTERN = r"^-?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$|^0$"

QUANTITY = Meta(
    extra={"language": "quantity"}, extra_json_schema={"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN}
)
DURATION = Meta(extra={"language": "duration"}, pattern=DURATION_PATTERN)
INT_OR_STRING = Meta(extra={"language": "int-or-string"}, extra_json_schema={"x-kubernetes-int-or-string": True})

Quantity = Annotated[int | str, QUANTITY]
Duration = Annotated[str, DURATION]
IntOrString = Annotated[int | str, INT_OR_STRING]

# A type of its own, and not datetime: the server refuses a MicroTime without exactly six digits, and msgspec writes
# none when they are zero. Only `micro_time` makes one.
MicroTime = NewType("MicroTime", str)

ZonedTime = Annotated[datetime, Meta(tz=True)]

# JSON without a schema: a CRD's defaults and examples, fields kept though unknown. Narrow it before use.
Json = object

_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = {exponent: suffix for suffix, exponent in _EXPONENTS.items()}
_POWERS_OF_1024 = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_BINARY_SUFFIXES = {0: "", **{power: suffix for suffix, power in _POWERS_OF_1024.items()}}
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:(?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?[0-9]{1,2}))"
)
_EXACT = Context(prec=200)  # wide enough that no quantity the pattern lets through is ever rounded
_NANO = Decimal("1e-9")
_BINARY_MAX = Decimal(2**63 - 1)


def parse_quantity(quantity: int | str) -> Decimal:
    """The amount, as the server understands it: what is smaller than 1n is rounded up, away from zero."""
    amount, _ = _amount_and_style(quantity)
    return amount


def format_quantity(amount: Decimal | int, *, binary: bool = False) -> str:
    """The canonical text of an amount: no fraction, the largest suffix that fits; `binary` prefers Ki, Mi, Gi."""
    exact = Decimal(amount)
    return _format(_rounded_to_nano(exact), "binary" if binary else "decimal")


@lru_cache(4096)  # a cluster has few different quantities, and they are compared on every pass
def canonical_quantity(quantity: int | str) -> str:
    """The one spelling of this quantity that keeps its style: "1000m" is "1", "1024Mi" is "1Gi", "1e3" stays "1e3".

    The server writes this too, but keeps a few odd spellings as they came ("+1", "1.500"), so rewrite both sides.
    """
    amount, style = _amount_and_style(quantity)
    return _format(amount, style)


def _amount_and_style(quantity: int | str) -> tuple[Decimal, str]:
    match = _QUANTITY.fullmatch(str(quantity).strip())
    if match is None:
        raise ValueError(f"expected a quantity like 500m, 2Gi or 4, got {quantity!r}")
    number, suffix, exponent = Decimal(match["number"]), match["suffix"] or "", match["exponent"]
    if exponent is not None:
        return _rounded_to_nano(number.scaleb(int(exponent), _EXACT)), "exponent"
    if suffix in _POWERS_OF_1024:
        amount = _rounded_to_nano(_EXACT.multiply(number, 1024 ** _POWERS_OF_1024[suffix]))
        return max(-_BINARY_MAX, min(_BINARY_MAX, amount)), "binary"
    return _rounded_to_nano(number.scaleb(_EXPONENTS[suffix], _EXACT)), "decimal"


def _rounded_to_nano(amount: Decimal) -> Decimal:
    return amount.quantize(_NANO, rounding=ROUND_UP, context=_EXACT)


def _format(amount: Decimal, style: str) -> str:
    if not amount:
        return "0"
    whole = amount == amount.to_integral_value()
    if style == "binary" and whole and abs(amount) >= 1024:
        mantissa, power = int(amount), 0
        while mantissa % 1024 == 0 and power < 6:
            mantissa, power = mantissa // 1024, power + 1
        return f"{mantissa}{_BINARY_SUFFIXES[power]}"
    mantissa, exponent = int(amount.scaleb(9, _EXACT)), -9
    while mantissa % 1000 == 0 and (style == "exponent" or exponent < 18):
        mantissa, exponent = mantissa // 1000, exponent + 3
    if style == "exponent":
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_SUFFIXES[exponent]}"


_UNITS = {"ns": 10**-3, "us": 1, "µs": 1, "μs": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6}
_DURATION = re.compile(r"([+-]?)((?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+|0)")
_TERM = re.compile(r"([0-9.]+)([a-zµμ]+)")


def parse_duration(duration: str) -> timedelta:
    """A Go duration: "1h5m", "1.5s", "-300ms", "0". Below a microsecond it is rounded."""
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"expected a duration like 1h30m or 45s, got {duration!r}")
    microseconds = sum(Decimal(number) * Decimal(str(_UNITS[unit])) for number, unit in _TERM.findall(match[2]))
    return timedelta(microseconds=round(-microseconds if match[1] == "-" else microseconds))


def format_duration(duration: timedelta) -> str:
    """As Go writes it: "1h5m0s", "1m0.5s", "300ms", "0s"."""
    microseconds = duration // timedelta(microseconds=1)
    sign, microseconds = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    if microseconds < 10**6:
        if not microseconds:
            return "0s"
        return f"{sign}{_short(Decimal(microseconds) / 1000)}ms" if microseconds >= 1000 else f"{sign}{microseconds}µs"
    minutes, rest = divmod(microseconds, 60 * 10**6)
    hours, minutes = divmod(minutes, 60)
    larger = (f"{hours}h{minutes}m" if hours else f"{minutes}m") if hours or minutes else ""
    return f"{sign}{larger}{_short(Decimal(rest) / 10**6)}s"


def _short(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def resolve_percentage(value: int | str, total: int, *, round_up: bool) -> int:
    """The count that an IntOrString such as `maxUnavailable` means: 3 is 3, "25%" is a share of `total`."""
    if isinstance(value, int):
        return value
    if not re.fullmatch(r"[0-9]+%", value):
        raise ValueError(f"expected a number or a percentage like 25%, got {value!r}")
    hundredths = int(value[:-1]) * total
    return -(-hundredths // 100) if round_up else hundredths // 100


def micro_time(moment: datetime) -> MicroTime:
    if moment.tzinfo is None:
        raise ValueError(f"expected a time with its zone, got {moment.isoformat()}")
    return MicroTime(moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z")


def parse_time(text: str) -> datetime:
    """An RFC 3339 time with its zone, as the server writes it in either precision."""
    try:
        return convert(text, ZonedTime).astimezone(UTC)
    except ValidationError:
        raise ValueError(f"expected an RFC 3339 time like 2026-01-31T12:00:00Z, got {text!r}") from None


def keys(*wire_names: str) -> Meta:
    """Marks a list whose elements are told apart by these fields: `Annotated[tuple[Container, ...], keys("name")]`.

    The server merges such a list element by element, so a comparison must match elements by key and not by position.
    """
    return Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(wire_names)})


# Marks a list without order or duplicates, merged element by element. A list without a mark is one value, in order.
UNIQUE = Meta(extra_json_schema={"x-kubernetes-list-type": "set"})
