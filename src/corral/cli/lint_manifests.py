"""What is wrong with manifests before anyone applies them: misspelt fields, and Slurm's lines inside them. Pure.

The verdict on a Controller's files is the operator's own (`corral.kinds.controller.files.rendered`), over what the
manifests hold: its NodeSets, its Accounting, the ConfigMaps it refers to. What is not among them is taken to be well.
Places are lines of the manifest, so that an editor can go there.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
import yaml

from corral.cli.lint_files import FILES, Level, Remark, costs, ordered, remark_of
from corral.engine.registry import KindController
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.files import Sources, references, rendered
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.parts import Ref
from corral.kube.crd import crd_of
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.apiextensions_v1 import JSONSchemaProps
from corral.kube.models.core_v1 import ConfigMap
from corral.slurm.config.findings import Severity
from corral.slurm.config.keys import nearest
from corral.slurm.config.lint import Names, lint, names_of
from corral.slurm.config.merge import merge

_PROBLEM = re.compile(r"(?P<field>[^:]+): (?:line (?P<line>\d+): )?(?P<reason>.*)", re.DOTALL)
_OF_NODESET = re.compile(r"NodeSet (?P<name>\S+), (?P<field>\S+)")


class NotYaml(ValueError):
    """The file cannot be read as YAML: the place and why."""


class Document(msgspec.Struct, frozen=True):
    """One object of a file, and where its parts stand."""

    file: str
    node: yaml.Node
    object: Object

    @property
    def name(self) -> str:
        return f"{self.object.resource.kind} {self.object.metadata.name}"

    @property
    def line(self) -> int:
        return _line(self.node)

    def at(self, *path: str) -> int:
        """The line where the text at this path begins; that of the document when there is none."""
        node = _below(self.node, path)
        return self.line if node is None else _text_line(node)


def read(file: str, text: str, kinds: Iterable[KindController]) -> tuple[tuple[Document, ...], tuple[Remark, ...]]:
    """The objects of our kinds and the ConfigMaps, and what kept others from being read. Other kinds are left out."""
    classes: dict[tuple[str, str], type[Object]] = {("v1", "ConfigMap"): ConfigMap}
    classes |= {(entry.kind.resource.api_version, entry.kind.resource.kind): entry.kind for entry in kinds}
    documents: list[Document] = []
    remarks: list[Remark] = []
    for node in _nodes(file, text):
        content = yaml.SafeLoader("").construct_document(node)
        if not isinstance(content, dict):
            remarks.append(Remark(file, _line(node), Level.ERROR, "", "expected an object with apiVersion and kind"))
            continue
        cls = classes.get((str(content.get("apiVersion")), str(content.get("kind"))))
        if cls is None:
            continue
        try:
            document = Document(file, node, msgspec.convert(content, cls))
        except msgspec.ValidationError as error:
            remarks.append(Remark(file, _line(node), Level.ERROR, "", str(error), str(content.get("kind"))))
            continue
        documents.append(document)
        remarks += _misspelt(document)
    return tuple(documents), tuple(remarks)


def without_repeated(documents: Iterable[Document]) -> tuple[tuple[Document, ...], tuple[Remark, ...]]:
    """Each object once: of two the later would overwrite the earlier when they are applied."""
    first: dict[tuple[str, str, str], Document] = {}
    remarks: list[Remark] = []
    for document in documents:
        meta = document.object.metadata
        before = first.setdefault((document.object.resource.kind, meta.namespace, meta.name), document)
        if before is not document:
            reason = f"is in {before.file}:{before.line} already; files with the same objects are checked one by one"
            remarks.append(Remark(document.file, document.line, Level.ERROR, document.name, reason))
    return tuple(first.values()), tuple(remarks)


def remarks_of_manifests(documents: Iterable[Document], version: str | None) -> tuple[Remark, ...]:
    """Everything about Slurm in them. `version` None: what each manifest says."""
    documents = tuple(documents)
    found: list[Remark] = []
    for document in documents:
        match document.object:
            case Controller():
                found += _controller(document, documents, version)
            case Accounting():
                found += _accounting(document, version)
            case NodeSet():
                found += _nodeset(document, version)
    return ordered(found)


def _controller(document: Document, documents: tuple[Document, ...], version: str | None) -> Iterator[Remark]:
    sources = _sources(document, documents, version)
    controller = sources.controller
    extra = controller.spec.extra_conf
    files = rendered(sources)
    for problem in files.errors:
        yield _placed(problem, document, documents)
    text, others = files.content.get("slurm.conf", ""), frozenset(files.content)
    defined = names_of(text)
    known = Names(defined.nodes, defined.partitions, defined.node_sets, others)
    where, first_line = f"{document.name}, spec.extraConf", document.at("spec", "extraConf")
    for finding in lint("slurm.conf", extra, controller.spec.version, known=known, whole=False):
        if finding.severity is Severity.WARNING:
            yield remark_of(document.file, finding, where=where, first_line=first_line)
    yield from costs(document.file, "slurm.conf", extra, where=where, first_line=first_line)
    for missing in sorted({ref.name for ref in references(controller)} - _names_of(ConfigMap, documents)):
        reason = f"is not in these files: its content was not checked (corral lint {document.file} OTHER.yaml)"
        yield Remark(document.file, document.line, Level.NOTE, f"ConfigMap {missing}", reason, document.name)


def _sources(document: Document, documents: tuple[Document, ...], version: str | None) -> Sources:
    controller = document.object
    assert isinstance(controller, Controller)  # noqa: S101 - the caller has looked
    if version:
        spec = msgspec.structs.replace(controller.spec, version=version)
        controller = msgspec.structs.replace(controller, spec=spec)
    maps = {d.object.metadata.name: d.object for d in documents if isinstance(d.object, ConfigMap)}
    accounting = controller.spec.accounting_ref
    return Sources(
        controller=controller,
        nodesets=tuple(
            d.object
            for d in documents
            if isinstance(d.object, NodeSet) and d.object.spec.controller_ref.name == controller.metadata.name
        ),
        accounting=_accounting_named(accounting, documents) if accounting else None,
        config_maps={ref.name: maps.get(ref.name, ConfigMap()) for ref in references(controller)},
    )


def _accounting_named(ref: Ref, documents: Iterable[Document]) -> Accounting:
    found = (d.object for d in documents if isinstance(d.object, Accounting) and d.object.metadata.name == ref.name)
    return next(found, Accounting(metadata=ObjectMeta(name=ref.name)))


def _placed(problem: str, document: Document, documents: tuple[Document, ...]) -> Remark:
    """The operator's sentence about a field, a file or another object, moved to its line in the manifest."""
    matched = _PROBLEM.fullmatch(problem)
    if matched is None:
        return Remark(document.file, document.line, Level.ERROR, "", problem, document.name)
    field, line, reason = matched["field"], int(matched["line"] or 1), matched["reason"]
    if of_nodeset := _OF_NODESET.fullmatch(field):
        other = _named(NodeSet, of_nodeset["name"], documents) or document
        place = other.at(*of_nodeset["field"].split("."))
        return Remark(other.file, place, Level.ERROR, "", reason, f"{other.name}, {of_nodeset['field']}")
    if field.startswith("spec."):
        first = document.at(*field.split("."))
        return Remark(document.file, first + line - 1, Level.ERROR, "", reason, f"{document.name}, {field}")
    for other in documents:
        if isinstance(other.object, ConfigMap) and field in other.object.data:
            first = other.at("data", field)
            return Remark(other.file, first + line - 1, Level.ERROR, "", reason, f"{other.name}, {field}")
    return Remark(document.file, document.line, Level.ERROR, "", problem, document.name)


def _accounting(document: Document, version: str | None) -> Iterator[Remark]:
    accounting = document.object
    assert isinstance(accounting, Accounting)  # noqa: S101 - the caller has looked
    file, spec = "slurmdbd.conf", accounting.spec
    asked = version or spec.version
    where, first_line = f"{document.name}, spec.extraConf", document.at("spec", "extraConf")
    refused = merge(file, (), spec.extra_conf, asked).refused
    for finding in (*refused, *lint(file, spec.extra_conf, asked, whole=False)):
        yield remark_of(document.file, finding, where=where, first_line=first_line)


def _nodeset(document: Document, version: str | None) -> Iterator[Remark]:
    """The lines of its own that a NodeSet brings: each is one line, so all findings stand where the text begins."""
    nodeset = document.object
    assert isinstance(nodeset, NodeSet)  # noqa: S101 - the caller has looked
    name, spec = nodeset.metadata.name, nodeset.spec
    asked = version or spec.version or Controller().spec.version
    known = Names(node_sets=frozenset({name}))
    for field, path, line in (
        ("spec.extraConf", ("spec", "extraConf"), f"NodeName={name}-0 {spec.extra_conf}"),
        ("spec.partition.config", ("spec", "partition", "config"), f"PartitionName={name} {spec.partition.config}"),
    ):
        for finding in lint("slurm.conf", line, asked, known=known, whole=False):
            yield remark_of(document.file, finding, where=f"{document.name}, {field}", first_line=document.at(*path))


def loose_files(documents: Iterable[Document]) -> Iterator[tuple[Document, str, str]]:
    """Slurm's files in ConfigMaps that no Controller here refers to; the others are checked with their Controller."""
    documents = tuple(documents)
    used = {
        ref.name for d in documents if isinstance(d.object, Controller) for ref in references(d.object)
    }  # by name alone: a file of manifests is about one namespace
    for document in documents:
        if isinstance(document.object, ConfigMap) and document.object.metadata.name not in used:
            for file, text in sorted(document.object.data.items()):
                if file in FILES:
                    yield document, file, text


def remarks_of_loose_files(documents: Iterable[Document], version: str) -> tuple[Remark, ...]:
    found: list[Remark] = []
    for document, file, text in loose_files(documents):
        where, first_line = f"{document.name}, {file}", document.at("data", file)
        findings = lint(file, text, version, whole=False)
        found += [remark_of(document.file, finding, where=where, first_line=first_line) for finding in findings]
        found += costs(document.file, file, text, where=where, first_line=first_line)
    return ordered(found)


def _misspelt(document: Document) -> Iterator[Remark]:
    """Fields that the kind does not have: the server would drop them without a word."""
    if isinstance(document.object, ConfigMap):
        return
    schema = crd_of(type(document.object)).spec.versions[0].schema
    if schema is None or schema.openapi_v3_schema is None:
        return
    for name, node in _fields(document.node):
        below = schema.openapi_v3_schema.properties.get(name)
        if below is not None and name != "metadata":
            for line, path, reason in _unknown(node, below, name):
                yield Remark(document.file, line, Level.ERROR, path, reason, document.name)


def _unknown(node: yaml.Node, schema: JSONSchemaProps, path: str) -> Iterator[tuple[int, str, str]]:
    if isinstance(node, yaml.SequenceNode) and isinstance(schema.items, JSONSchemaProps):
        for number, item in enumerate(node.value):
            yield from _unknown(item, schema.items, f"{path}[{number}]")
    if not schema.properties or schema.x_kubernetes_preserve_unknown_fields:
        return
    for key, value, line in _entries(node):
        below = schema.properties.get(key)
        if below is not None:
            yield from _unknown(value, below, f"{path}.{key}")
        else:
            guess = nearest(key, tuple(schema.properties))
            yield line, f"{path}.{key}", f"is no field{f': did you mean {guess}?' if guess else ''}"


def _nodes(file: str, text: str) -> list[yaml.Node]:
    try:
        return [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if not _is_null(node)]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else file
        raise NotYaml(f"{place} is not YAML: {getattr(error, 'problem', error)}") from error


def _is_null(node: yaml.Node | None) -> bool:
    return node is None or node.tag == "tag:yaml.org,2002:null"


def _entries(node: yaml.Node) -> Iterator[tuple[str, yaml.Node, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield str(key.value), value, _line(key)


def _fields(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    return ((key, value) for key, value, _ in _entries(node))


def _below(node: yaml.Node, path: tuple[str, ...]) -> yaml.Node | None:
    found: yaml.Node | None = node
    for step in path:
        found = None if found is None else dict(_fields(found)).get(step)
    return found


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _text_line(node: yaml.Node) -> int:
    """A block (`|`) begins on the line after its mark."""
    is_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
    return _line(node) + (1 if is_block else 0)


def _named(kind: type[Object], name: str, documents: Iterable[Document]) -> Document | None:
    return next((d for d in documents if isinstance(d.object, kind) and d.object.metadata.name == name), None)


def _names_of(kind: type[Object], documents: Iterable[Document]) -> set[str]:
    return {d.object.metadata.name for d in documents if isinstance(d.object, kind)}


def by_level(remarks: Iterable[Remark]) -> Mapping[Level, int]:
    remarks = tuple(remarks)
    return {level: sum(remark.level is level for remark in remarks) for level in Level}
