"""Hostlists both ways. tests/integration/test_slurm_config_hostlist.py asks the real scontrol about the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.slurm.hostlist import HOSTS_MAX, HostlistError, expand, fold, fold_set

# Short alphabets, so that neighbours, paddings and repetitions come up by themselves.
NAMES = st.from_regex(r"[ab.-]{0,2}[019]{0,3}([b-][019]{0,3})?", fullmatch=True).filter(bool)


@pytest.mark.parametrize(
    ("hostlist", "hosts"),
    [
        ("", ""),
        ("login", "login"),
        ("a1,a2,b", "a1 a2 b"),
        ("a[1-3]", "a1 a2 a3"),
        ("a[01-03,5]", "a01 a02 a03 a5"),
        ("a[9-011]", "a9 a10 a11"),
        ("a[098-101]", "a098 a099 a100 a101"),
        ("a[1-2]-ib", "a1-ib a2-ib"),
        ("a[1-2].example.com", "a1.example.com a2.example.com"),
        ("a[1-2]b[3-4]", "a1b3 a1b4 a2b3 a2b4"),
        ("a[1-2][3-4]", "a13 a14 a23 a24"),
        ("a[0-1]b[0-1]c[0-1]", "a0b0c0 a0b0c1 a1b0c0 a1b0c1 a0b1c0 a0b1c1 a1b1c0 a1b1c1"),
        ("[1-3]", "1 2 3"),
        (",a,,b c\n", "a b c"),
        ("a[1-2,2-3]", "a1 a2 a2 a3"),
    ],
)
def test_a_hostlist_stands_for(hostlist: str, hosts: str) -> None:
    assert expand(hostlist) == tuple(hosts.split())


@pytest.mark.parametrize(
    ("hostlist", "says"),
    [
        ("a[1-3", "bracket at character 2"),
        ("a1-3]", "bracket at character 5"),
        ("a[[1-2]]", "bracket at character 2"),
        ("a[]", "got ''"),
        ("a[3-1]", "goes down"),
        ("a[1-]", "got '1-'"),
        ("a[-3]", "got '-3'"),
        ("a[1,,2]", "got ''"),
        ("a[1 2]", "got '1 2'"),
        ("a[00x11]", "got '00x11'"),
        ("a[1-65537]", "more than 65536 numbers"),
        ("a[18446744073709551616]", "64 bits"),
        ("a[1-9999][1-9999]", f"more than {HOSTS_MAX} names"),
        ("feature{gpu}", "slurmctld only"),
        ("a[\u0661-\u0663]", "expected a number"),
    ],
)
def test_what_is_no_hostlist_is_refused_with_the_place(hostlist: str, says: str) -> None:
    with pytest.raises(HostlistError, match=r"hostlist '") as refused:
        expand(hostlist)

    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("hosts", "hostlist"),
    [
        ("", ""),
        ("a1 a2 a3", "a[1-3]"),
        ("a1 a3 a2", "a[1,3,2]"),
        ("a09 a10 a11", "a[09-11]"),
        ("a98 a99 a100", "a[98-100]"),
        ("a009 a10", "a[009,10]"),
        ("a0 a00 a1", "a[0,00,1]"),
        ("a1 b1 a2", "a1,b1,a2"),
        ("login a1 a2", "login,a[1-2]"),
        ("a a1", "a,a1"),
        ("a1 a", "a1,a"),
        ("a5 a5 a6", "a[5,5-6]"),
        ("a1b1 a1b2 a2b1", "a1b[1-2],a2b1"),
        ("a1-ib a2-ib", "a1-ib,a2-ib"),
        ("1 2 3", "[1-3]"),
        ("a18446744073709551616 a18446744073709551617", "a18446744073709551616,a18446744073709551617"),
    ],
)
def test_names_fold_into(hosts: str, hostlist: str) -> None:
    assert fold(hosts.split()) == hostlist


@given(st.lists(NAMES))
def test_folding_loses_nothing(hosts: list[str]) -> None:
    assert expand(fold(hosts)) == tuple(hosts)


@given(st.sets(NAMES))
def test_folding_a_set_loses_nothing_and_forgets_the_order(hosts: set[str]) -> None:
    folded = fold_set(hosts)

    assert set(expand(folded)) == hosts
    assert fold_set(reversed(expand(folded))) == folded


def test_a_range_longer_than_slurm_reads_is_cut() -> None:
    hosts = tuple(f"n{number}" for number in range(65_538))

    assert fold(hosts) == "n[0-65535,65536-65537]"


@pytest.mark.parametrize("name", ["", "a,b", "a[1]", "a b", "a\nb"])
def test_what_cannot_be_a_host_name_is_not_folded(name: str) -> None:
    with pytest.raises(HostlistError, match="host name"):
        fold([name])


@given(st.text(alphabet="ab[]-,019 ", max_size=20))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    try:
        hosts = expand(text)
    except HostlistError:
        return
    assert expand(fold(hosts)) == hosts
