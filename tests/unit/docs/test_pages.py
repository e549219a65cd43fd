"""What the pages say can be followed: links lead somewhere, commands that they show exist, with their options."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from corral.cli.commands import cli

CHECKOUT = Path(__file__).parents[3]
PAGES = sorted((*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md")))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:^|[`$(] ?|kubectl )corral ((?:[-a-z<>=./~0-9'\"A-Z_:*,\[\]|]+ ?)+)", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--?[a-z][-a-z]*")


@pytest.fixture(params=PAGES, ids=lambda page: page.name)
def page(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return request.param


def slug(heading: str) -> str:
    """As the web shows it: lower case, no punctuation, dashes for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)}


def test_every_link_leads_to_something_that_is_there(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if re.match(r"[a-z]+://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}"


def shown(page: Path) -> Iterator[tuple[str, click.Command, str]]:
    """Each command of ours as the page shows it, the command itself, and what follows its name."""
    for match in COMMAND.finditer(page.read_text()):
        text = match[1].partition(" -- ")[0].partition("|")[0]
        command: click.Command = cli
        words = [word.rstrip(",.;") for word in text.split()]
        if not words or not words[0].islower():
            continue  # `corral COMMAND`
        while words and isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words[0])
            assert found is not None, f"{page.name} shows `corral {text}`: there is no {words[0]}"
            command, words = found, words[1:]
        yield text, command, " ".join(words)


def test_every_command_that_is_shown_exists_with_the_options_that_are_shown(page: Path) -> None:
    if page.name == "roadmap.md":
        return  # it is about what does not exist yet
    for text, command, rest in shown(page):
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        unknown = set(OPTION.findall(rest)) - known - {"-h", "--help"}
        assert not unknown, f"{page.name} shows `corral {text}`: {', '.join(sorted(unknown))} is not known"


def test_commands_are_found_in_the_page_about_them() -> None:
    named = {command.name for _, command, _ in shown(CHECKOUT / "docs" / "commands.md")}
    assert {"check", "lint", "plan", "status", "explain", "test", "report"} <= named
