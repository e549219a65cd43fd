"""Commands about virtual machines on a real API server, and the stand-in as a program of its own."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from corral.kinds.nodebridge.spec import NodeBridge, NodeBridgeSpec
from corral.kinds.wukong.importing import imported
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube import Client, Precondition
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.core_v1 import Secret
from corral.testing.cluster import Cluster
from corral.testing.localcluster import as_at_a_terminal
from tests.integration.wukonglife import (
    WHOLE,
    apply,
    is_gone,
    is_taken,
    make_pool,
    operating,
    operator,
    phase_is,
    take_snapshot,
    until,
    way_to,
)
from tests.unit.kinds.wukong.foreign import SAMPLES

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("wukong_definitions")]

KINDS: Mapping[str, type[Object]] = {"Wukong": Wukong, "WukongSnapshot": WukongSnapshot, "Secret": Secret}
DISKLESS = (
    "{cpu: 1, memory: 1Gi, disks: [{name: live, size: 1Gi, source: {containerDisk: {image: 'images.test/a:1'}}}]}"
)


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES.keys())
async def test_the_server_takes_what_corral_import_makes_of_manifests_of_others(client: Client, sample: str) -> None:
    made = imported(list(yaml.safe_load_all(sample)))
    assert made
    for each in made:
        manifest: dict[str, Any] = msgspec.to_builtins(each.manifest)
        manifest["metadata"]["namespace"] = "default"
        untyped = KINDS[manifest["kind"]].resource.untyped()
        await client.create(untyped(content=manifest), field_manager="person", dry_run=True)


async def test_the_commands_know_machines_and_what_belongs_to_them(
    corral_cluster: Cluster, client: Client, corral_namespace: str, tmp_path: Path
) -> None:
    ns = corral_namespace
    bridge = NodeBridge(metadata=ObjectMeta(name=f"bridge-{ns[-6:]}"), spec=NodeBridgeSpec(bridge_name="br9", port="p"))
    other = tmp_path / "other.yaml"
    manifest = {"apiVersion": Wukong.resource.api_version, "kind": "Wukong", "metadata": {"name": "other"}}
    other.write_text(yaml.safe_dump({**manifest, "spec": yaml.safe_load(DISKLESS)}))
    async with operating(corral_cluster, client, ns):
        await make_pool(client, ns, "san")
        await client.create(bridge, field_manager="person")
        await apply(client, ns, WHOLE)
        await until(lambda: phase_is(client, ns, "Running"))
        await take_snapshot(client, ns, "friday")
        await until(lambda: is_taken(client, ns))
        for words, told in (
            (("status",), "Wukong vm True AsDesired"),
            (("explain", "wukong", "vm"), f"Wukong {ns}/vm: ready"),
            (("plan", "wukong", "vm"), "nothing to do"),
            (("plan", "-f", str(other)), f"create Secret {ns}/other-cloud-init"),
            (("explain", "wukongsnapshot", "friday"), f"WukongSnapshot {ns}/friday: ready"),
            (("explain", "addresspool", "san"), f"AddressPool {ns}/san: ready"),
            (("explain", "nodebridge", bridge.metadata.name), "NMState has not told yet"),
        ):
            code, said = await corral(corral_cluster, *words, "-n", ns)
            assert told in " ".join(said.split()), (words, code, said)
        await client.delete(Wukong, "vm", ns, precondition=Precondition())
        await until(lambda: is_gone(client, Wukong, "vm", ns))
        await client.delete(NodeBridge, bridge.metadata.name, precondition=Precondition())
        await until(lambda: is_gone(client, NodeBridge, bridge.metadata.name, ""))


async def corral(cluster: Cluster, *words: str) -> tuple[int, str]:
    process = await python(cluster, "-c", "from corral.cli.main import main; main()", *words)
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def python(cluster: Cluster, *words: str) -> Process:
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, env=environment, stdout=PIPE, stderr=STDOUT, preexec_fn=as_at_a_terminal
    )


async def test_the_stand_in_plays_as_a_program_until_it_is_interrupted(
    corral_cluster: Cluster, client: Client, corral_namespace: str
) -> None:
    ns = corral_namespace
    program = await python(corral_cluster, "-m", "corral.testing.kubevirt_standin")
    assert program.stdout is not None
    try:
        async with asyncio.timeout(120):
            assert b"machines are played until Ctrl-C" in await program.stdout.readline()
        async with operator(way_to(corral_cluster)):
            await apply(client, ns, DISKLESS)
            await until(lambda: phase_is(client, ns, "Running"))
            await client.delete(Wukong, "vm", ns, precondition=Precondition())
            await until(lambda: is_gone(client, Wukong, "vm", ns))
    finally:
        program.send_signal(signal.SIGINT)
        said, _ = await program.communicate()
    assert (program.returncode, said.decode()) == (0, "")
