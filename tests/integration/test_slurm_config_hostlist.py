"""Hostlists as the real scontrol reads and writes them, in both versions."""

import random

import pytest

from corral.slurm.config.keys import VERSIONS
from corral.slurm.hostlist import HostlistError, expand, fold
from corral.testing.slurmroots import Sandbox, slurm_root

pytestmark = pytest.mark.slurm

HOSTLISTS = """
a[1-3]
a[01-03,5]
a[1-2]b[3-4]
a[1-2]-ib
a[1-2]b[3-4]c
a[0-1]b[0-1]c[0-1]
a[0-1]b[0-1]c[0-1]d[0-1]
a,b,c
a[1-2],b[03-04]
[1-3]
a,,b
a[1-2][3-4]
a[009-011]
a[9-011]
a[1-3,2-4]
a.b[1-2].example.com
a[1-2],[3-4]
a[0-0]
a[98-101]
a[1-3
a[]
a[3-1]
a[-3]
a[1,,2]
a[x]
a[00x11]
a[1-2-3]
a[1-65537]
a[ 1-2 ]
""".strip().split("\n")

# scontrol reads a slurm.conf first. One process for all questions: starting one takes longer than asking.
ASK = 'for question; do scontrol show "$0" "$question" 2>&1; echo "--"; done'


def ask(version: str, verb: str, questions: list[str]) -> list[list[str]]:
    files = {"slurm.conf": b"ClusterName=lab\nSlurmctldHost=ctld\n"}
    said = Sandbox(slurm_root(version), files).run("sh", "-c", ASK, verb, *questions).stdout
    return [answer.split("\n")[:-1] for answer in said.replace("\n--", "\n--").split("--\n")[:-1]]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_hostlist_stands_for_the_names_that_scontrol_prints(version: str) -> None:
    for hostlist, answer in zip(HOSTLISTS, ask(version, "hostnames", HOSTLISTS), strict=True):
        refused = any("Invalid hostlist" in line for line in answer)
        try:
            assert list(expand(hostlist)) == answer
        except HostlistError:
            assert refused, hostlist


@pytest.mark.parametrize("version", VERSIONS)
def test_names_fold_as_scontrol_folds_them(version: str) -> None:
    pick = random.Random(20_26)
    lists = [
        [f"{pick.choice(['a', 'b', 'a1b', ''])}{pick.choice(['', '0', '00'])}{pick.randint(0, 12)}" for _ in range(8)]
        for _ in range(60)
    ]

    answers = ask(version, "hostlist", [",".join(hosts) for hosts in lists])

    assert [[fold(hosts)] for hosts in lists] == answers
