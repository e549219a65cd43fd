"""Write src/corral/slurm/config/keys/VERSION.json: every key of Slurm's configuration files, with its type.

    .venv/bin/python scripts/slurm_keys.py [VERSION...]

Two sources, both from the real packages (corral.testing.slurmroots):
- the manual pages of section 5: which keys there are, and the options that they list for a key;
- the daemons' own parsers, asked: a file that gives every key the value "@@" (twice) makes the daemon say of each
  whether it knows it, whether it wants a number or yes/no, whether it may be repeated, and whether it is defunct.
  Asked about every word in Slurm's library, it also tells the keys that it still takes but no longer documents.
Run it again when a new Slurm comes; the result is checked in, and nothing reads manual pages at run time.
"""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corral.testing.slurmroots import SUITES, Sandbox, slurm_root

HERE = Path(__file__).resolve().parent.parent
KEYS = HERE / "src/corral/slurm/config/keys"
LIBRARY = "usr/lib/x86_64-linux-gnu/slurm-wlm"
AS_SLURM = ("setpriv", "--reuid=slurm", "--regid=slurm", "--init-groups")

# Which headings of which page hold keys, and which key begins a line of its own kind ("" = a line with one key).
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "slurm.conf": {
        "PARAMETERS": "",
        "NODE CONFIGURATION": "NodeName",
        "DOWN NODE CONFIGURATION": "DownNodes",
        "NODESET CONFIGURATION": "NodeSet",
        "PARTITION CONFIGURATION": "PartitionName",
        "POWERACTION CONFIGURATION": "PowerAction",
    },
    "slurmdbd.conf": {"DESCRIPTION": ""},
    "cgroup.conf": {"DESCRIPTION": "", "TASK/CGROUP PLUGIN": "", "PROCTRACK/CGROUP PLUGIN": ""},
    "gres.conf": {"DESCRIPTION": "Name"},
    "topology.conf": {"topology/tree": "SwitchName", "topology/block": "BlockName", "topology/ring": "RingName"},
    "acct_gather.conf": {
        "acct_gather_energy/IPMI": "",
        "acct_gather_energy/XCC": "",
        "acct_gather_profile/HDF5": "",
        "acct_gather_profile/InfluxDB": "",
        "acct_gather_interconnect/OFED": "",
        "acct_gather_interconnect/sysfs": "",
    },
    "job_container.conf": {"DESCRIPTION": ""},
    "mpi.conf": {"PARAMETERS": ""},
    "topology.yaml": {"PARAMETERS": ""},
}
# A page that wraps its keys in one more indentation than the others.
INDENTED = {"acct_gather.conf"}
RECORDS = ("NodeName", "DownNodes", "NodeSet", "PartitionName", "PowerAction")
PLUGIN_KINDS = """
accounting_storage acct_gather_energy acct_gather_filesystem acct_gather_interconnect acct_gather_profile auth
burst_buffer certgen certmgr cgroup cli_filter cred gres hash http_parser job_container job_submit jobacct_gather
jobcomp mcs metrics mpi namespace node_features preempt prep priority proctrack sched select site_factor switch task tls
topology url_parser
"""
FORM_TYPES = {
    "yes|no": "yesno",
    "true|false": "truefalse",
    "number": "uint32",
    "seconds": "uint32",
    "PERCENT": "float",
    "0|1": "uint16",
}


@dataclass
class Key:
    name: str
    form: str = ""
    options: list[str] = field(default_factory=list)


def plain(text: str) -> str:
    text = re.sub(r"\\f[A-Z]|\\f\(..|\\&|\\/", "", text)
    return text.replace("\\-", "-").replace("\\#", "#").replace("\\(aq", "'").replace("\\'", "'").strip()


def terms(page: str) -> Iterator[tuple[str, int, str]]:
    """Every term of a manual page: its heading, how deep it is indented, its text."""
    heading, depth, expected = "", 0, False
    for line in page.splitlines():
        if line.startswith(".SH"):
            heading, depth = plain(line[3:].strip().strip('"')), 0
        elif line.startswith((".RS", ".RE")):
            depth = max(0, depth + (1 if line.startswith(".RS") else -1))
        elif line.startswith(".TP"):
            expected = True
        elif expected and line and not line.startswith('.\\"'):
            expected = False
            yield heading, depth, plain(re.sub(r"^\.[BI]R?\s+", "", line))


def manual(page: str, sections: Mapping[str, str], depth_of_keys: int) -> dict[str, dict[str, Key]]:
    """Record (or "") to its keys."""
    found: dict[str, dict[str, Key]] = {}
    latest: Key | None = None
    for heading, depth, text in terms(page):
        if heading not in sections:
            continue
        word = re.match(r"[A-Za-z][A-Za-z0-9_]*", text)
        if depth <= depth_of_keys and word:
            name, _, form = text.partition("=")
            latest = Key(word.group(), form.strip("<>{}[] ") if name == word.group() else "")
            found.setdefault(sections[heading], {})[latest.name] = latest
        elif depth > depth_of_keys and latest is not None and (option := option_name(text)):
            latest.options.append(option)
    return found


def option_name(text: str) -> str:
    """`max_step_records=#` is max_step_records; a term that is a sentence is no option."""
    name = re.split(r"[=:<\[ ]", text, maxsplit=1)[0].rstrip(",")
    return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_/.+-]*", name) and not text.endswith(":") else ""


CONF = "ClusterName=x\nSlurmctldHost=ctld\nSlurmUser=slurm\n"
# What makes slurmd read job_container.conf.
CONTAINERS = {"24.11": "JobContainerType=job_container/tmpfs\n", "26.05": "NamespaceType=namespace/tmpfs\n"}
AUTH = "AuthType=auth/slurm\nProctrackType=proctrack/linuxproc\nStateSaveLocation=/var/spool/slurmctld\n"


class Parser:
    """A daemon of one version, asked what it makes of lines."""

    def __init__(self, version: str, file: str, command: Iterable[str], preamble: str, conf: str = CONF) -> None:
        self._root, self._file, self._command, self._preamble = slurm_root(version), file, tuple(command), preamble
        self._conf = conf

    def complaints(self, lines: Iterable[str]) -> str:
        text = self._preamble + "\n".join(lines) + "\nNoSuchKey=1\n"
        files = {"slurm.conf": self._conf.encode(), "slurm.key": b"k" * 64, "cgroup.conf": b"CgroupPlugin=disabled\n"}
        said = Sandbox(self._root, files | {self._file: text.encode()}).run(*self._command, within_s=120)
        if "unrecognized key: NoSuchKey" not in said.stdout:
            raise RuntimeError(f"{self._command} did not read {self._file} to its end: {said.stdout[-500:]}")
        return re.sub(r"^(?:[\w-]+: |\[[^\]]*\] )", "", said.stdout, flags=re.MULTILINE)

    def keys(self, candidates: Iterable[str], prefix: str = "") -> dict[str, dict[str, object]]:
        """Those that it takes, with what it says of them; `prefix` is the start of a record's line."""
        words = sorted(candidates, key=str.lower)
        lines = [f"{prefix.replace('#', str(number))}{word}=@@" for number, word in enumerate(words)]
        said = self.complaints(line for line in lines for _ in range(1 if prefix else 2))
        if f"_parse_next_key: Parsing error at unrecognized key: {prefix.partition('=')[0]}\n" in said:
            return {}  # this version has no such record
        unknown = {word.lower() for word in re.findall(r"unrecognized key: (\w+)", said)}
        numbers = {word.lower() for word in re.findall(r'^error: (\w+) value ["(]@@', said, re.MULTILINE)}
        yesno = {word.lower() for word in re.findall(r'"@@" is not a valid option for "(\w+)"', said)}
        defunct = {word.lower() for word in re.findall(r'The option "(\w+)" is defunct', said)}
        once = {word.lower() for word in re.findall(r"^error: (\w+) \d+ specified more than once", said, re.MULTILINE)}
        bits = self._number_types([word for word in words if word.lower() in numbers], prefix)
        found: dict[str, dict[str, object]] = {}
        for word in words:
            low = word.lower()
            if low in unknown:
                continue
            kind = bits.get(low) or ("yesno" if low in yesno else "text")
            found[word] = {"type": kind}
            if low in defunct:
                found[word]["defunct"] = True
            elif not prefix and kind == "text" and low not in once:
                found[word]["repeats"] = True
        return found

    def _number_types(self, words: list[str], prefix: str) -> dict[str, str]:
        def asked(value: str) -> str:
            return self.complaints(
                f"{prefix.replace('#', str(number))}{word}={value}" for number, word in enumerate(words)
            )

        large, broken = asked("99999999999"), asked("1.5")
        types: dict[str, str] = {}
        for word in words:
            if not re.search(rf"(?i)^error: {word} value", broken, re.MULTILINE):
                types[word.lower()] = "float"
            elif limit := re.search(rf"(?i){word} value \S+ is greater than (\d+)", large):
                types[word.lower()] = "uint16" if int(limit[1]) < 2**16 else "uint32"
            else:
                types[word.lower()] = "uint64"
        return types


def library_words(version: str) -> set[str]:
    binary = (slurm_root(version) / LIBRARY / "libslurmfull.so").read_bytes()
    words = {match.decode() for match in re.findall(rb"(?<=\0)[A-Z][A-Za-z0-9]{1,40}(?=\0)", binary)}
    # The one includes a file; the other ends the parser at once in a build without front ends, which all of ours are.
    return {word for word in words if word.lower() not in ("include", "frontendname")}


def plugins(version: str) -> dict[str, list[str]]:
    """Kind to names, as in select/cons_tres, of Debian's build."""
    kinds: dict[str, list[str]] = {}
    known = sorted(PLUGIN_KINDS.split(), key=len, reverse=True)
    for file in sorted((slurm_root(version) / LIBRARY).glob("*.so")):
        kind = next((kind for kind in known if file.stem.startswith(kind + "_")), None)
        if kind:
            kinds.setdefault(kind, []).append(file.stem.removeprefix(kind + "_"))
    return kinds


def page_of(version: str, file: str) -> str:
    path = slurm_root(version) / f"usr/share/man/man5/{file}.5.gz"
    return gzip.decompress(path.read_bytes()).decode() if path.exists() else ""


def everywhere(file: str) -> set[str]:
    """The keys in the manual of any version: a daemon may take what only another version documents."""
    pages = [page_of(version, file) for version in SUITES]
    return {name for page in pages for keys in manual(page, SECTIONS[file], 0).values() for name in keys}


def by_manual(keys: Mapping[str, Key]) -> dict[str, dict[str, object]]:
    return {name: {"type": FORM_TYPES.get(key.form, "text")} | options(key) for name, key in keys.items()}


def options(key: Key) -> dict[str, object]:
    listed = list(dict.fromkeys(key.options))
    if not listed and "|" in key.form and key.form not in FORM_TYPES:
        listed = [word for word in key.form.split("|") if re.fullmatch(r"[A-Za-z0-9_/]+", word)]
    return {"options": listed} if listed else {}


def by_parser(
    parser: Parser, keys: Mapping[str, Key], words: set[str], prefix: str = ""
) -> dict[str, dict[str, object]]:
    """What the parser takes, in the manual's spelling, with the manual's options."""
    spelt = {name.lower(): name for name in (*sorted(words), *keys)}
    taken = parser.keys(spelt.values(), prefix)
    documented = {name.lower() for name in keys}
    result: dict[str, dict[str, object]] = {}
    for name, facts in taken.items():
        if name.lower() not in documented:
            facts["undocumented"] = True
        result[name] = facts | (options(keys[name]) if name in keys else {})
    return result


def shaped(file: str, settings: dict[str, dict[str, object]], records: dict[str, dict[str, dict[str, object]]]) -> None:
    """What the pages say in prose only: which keys may begin a line, and which stand alone."""
    if file == "gres.conf":
        every = records.pop("Name")
        settings["AutoDetect"] = every["AutoDetect"]
        records["NodeName"] = {name: facts for name, facts in every.items() if name != "NodeName"}
        records["Name"] = {name: facts for name, facts in records["NodeName"].items() if name != "Name"}
    elif file == "topology.conf":
        settings["BlockSizes"] = records["BlockName"].pop("BlockSizes")


def table(version: str) -> dict[str, object]:
    words = library_words(version)
    controller = Parser(version, "slurm.conf", (*AS_SLURM, "/usr/sbin/slurmctld", "-D", "-i"), CONF)
    groups = Parser(version, "cgroup.conf", (*AS_SLURM, "/usr/sbin/slurmctld", "-D", "-i"), "", CONF + AUTH)
    worker = ("sh", "-c", "chown root: /run/slurm; exec /usr/sbin/slurmd -D -N n1")
    conf = CONF + AUTH + "NodeName=n1\nPrologFlags=Contain\n" + CONTAINERS.get(version, CONTAINERS["26.05"])
    containers = Parser(version, "job_container.conf", worker, "", conf)
    database = Parser(version, "slurmdbd.conf", (*AS_SLURM, "/usr/sbin/slurmdbd", "-D"), "SlurmUser=slurm\n")
    files: dict[str, object] = {}
    for file, sections in SECTIONS.items():
        page = page_of(version, file)
        found = manual(page, sections, 1 if file in INDENTED else 0)
        if not found:
            continue
        settings = found.get("", {})
        records: dict[str, dict[str, dict[str, object]]] = {}
        if file == "slurm.conf":
            for record in RECORDS:
                documented = found.get(record, {})
                taken = by_parser(controller, documented, words, f"{record}=probe# ")
                if set(taken) - {record}:
                    records[record] = {name: facts for name, facts in taken.items() if name != record}
            taken = by_parser(controller, settings, words)
            first = {name: facts for name, facts in taken.items() if name not in RECORDS}
        elif file == "slurmdbd.conf":
            first = by_parser(database, settings, words)
        elif file == "cgroup.conf":
            first = by_parser(groups, settings, everywhere(file))
        elif file == "job_container.conf":
            keys = {name: key for name, key in settings.items() if name != "NodeName"}
            first = by_parser(containers, keys, everywhere(file) - {"NodeName"})
            records = {
                "NodeName": by_parser(containers, keys, everywhere(file) - {"NodeName"}, "NodeName=n# BasePath=/x "),
                "BasePath": by_parser(containers, keys, everywhere(file) - {"NodeName"}, "BasePath=/x# "),
            }
            first.pop("BasePath")
        else:
            first = by_manual(settings)
            records = {record: by_manual(keys) for record, keys in found.items() if record}
            shaped(file, first, records)
        files[file] = {"settings": first, "records": records}
    release = subprocess.run(
        ["chroot", str(slurm_root(version)), "dpkg-query", "-W", "-f", "${Version}", "slurmctld"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {"version": version, "package": release, "plugins": plugins(version), "files": files}


def main() -> None:
    for version in sys.argv[1:] or SUITES:
        text = json.dumps(table(version), indent=1, sort_keys=True)
        text = re.sub(r"\{\n\s+([^{}\[\]]*?)\n\s+\}", lambda inner: "{" + re.sub(r"\n\s+", " ", inner[1]) + "}", text)
        text = re.sub(r"\[\n\s+([^{}\[\]]*?)\n\s+\]", lambda inner: "[" + re.sub(r"\n\s+", " ", inner[1]) + "]", text)
        (KEYS / f"{version}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
