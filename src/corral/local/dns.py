"""CoreDNS as a process beside the control plane. Pods ask it directly at the control plane's address.

It answers for the cluster's domain and for nothing else: there is no way out, so other names do not exist.
"""

from pathlib import Path

from corral.local.controlplane import API_SERVER, kubeconfig_path
from corral.local.home import Home
from corral.local.spec import DOMAIN, Spec
from corral.local.supervision import Component


def corefile(spec: Spec, home: Home) -> str:
    return f"""{DOMAIN} in-addr.arpa {{
    bind {spec.control_address}
    errors
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig_path(home, "dns")}
        pods insecure
        ttl 5
    }}
    cache 5
    loadbalance
}}

. {{
    bind {spec.control_address}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def component(home: Home, program: Path) -> Component:
    return Component(
        name="coredns",
        argv=(str(program), "-conf", str(home.config / "Corefile")),
        network=str(home.control_network),
        after=(API_SERVER,),
    )
