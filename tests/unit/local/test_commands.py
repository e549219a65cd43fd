"""The host's tools: found where administrators have them, and what is missing is named."""

from corral.local.commands import find_administration, missing_tools


def test_tools_of_administrators_are_found_by_whoever_became_root_without_their_path() -> None:
    environment = {"PATH": "/usr/bin:/usr/sbin"}
    find_administration(environment)
    assert environment["PATH"] == "/usr/bin:/usr/sbin:/usr/local/sbin:/sbin"
    find_administration(environment)
    assert environment["PATH"].count("sbin") == 3


def test_a_tool_that_is_not_there_is_named() -> None:
    assert missing_tools(("sh", "no-such-tool")) == ("no-such-tool",)
