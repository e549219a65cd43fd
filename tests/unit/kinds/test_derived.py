import msgspec

from corral.kinds.derived import derived


class Square(msgspec.Struct, frozen=True, dict=True):
    side: int
    asked: list[int]

    @derived
    def area(self) -> int:
        """How large it is."""
        self.asked.append(self.side)
        return self.side * self.side


def test_it_is_found_once_and_only_when_asked_for() -> None:
    square = Square(3, [])
    assert square.asked == []
    assert (square.area, square.area, square.asked) == (9, 9, [3])


def test_it_belongs_to_its_value_alone_and_is_no_part_of_it() -> None:
    small, other = Square(2, []), Square(2, [])
    assert small.area == 4
    assert msgspec.structs.replace(small, side=5).area == 25
    assert "area" not in other.__dict__
    assert msgspec.structs.asdict(small).keys() == {"side", "asked"}


def test_the_class_shows_what_it_is() -> None:
    assert Square.area.__doc__ == "How large it is."
