"""A database that is there already, on a real cluster: TLS, an odd password, and a certificate that is not good."""

import base64
import json
from datetime import UTC, datetime

import pytest

from corral.local.certificates import Pair, Wanted, issue
from tests.e2e.test_first_job import Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

PASSWORD = r"b\ck #sl'sh $5%&=;\\n"  # what shells, SQL and Slurm's files each read in another way
AUTHORITY = Wanted(file="ca", authority="ca", user="lab-ca")
SERVER_OPTIONS = "--ssl-cert=/etc/corral/tls/tls.crt --ssl-key=/etc/corral/tls/tls.key --require-secure-transport"
DATABASE = f"""
apiVersion: v1
kind: Pod
metadata: {{name: db, labels: {{app: db}}}}
spec:
  securityContext: {{runAsUser: 999, runAsGroup: 999, fsGroup: 999}}
  containers:
  - name: mariadb
    image: corral/mariadb:11.8
    command:
    - sh
    - -c
    - sed 's#^exec mariadbd --no-defaults#& {SERVER_OPTIONS}#' $0 >/run/mysqld/run && exec sh /run/mysqld/run
    - /usr/libexec/corral/mariadb-run
    env: [{{name: MARIADB_DATABASE, value: slurm_acct_db}}, {{name: MARIADB_USER, value: slurm}}]
    readinessProbe: {{tcpSocket: {{port: 3306}}, periodSeconds: 1}}
    volumeMounts:
    - {{name: keys, mountPath: /etc/corral/keys}}
    - {{name: tls, mountPath: /etc/corral/tls}}
    - {{name: data, mountPath: /var/lib/mysql}}
    - {{name: run, mountPath: /run/mysqld}}
  volumes:
  - {{name: keys, secret: {{secretName: db, defaultMode: 0440}}}}
  - {{name: tls, secret: {{secretName: db, defaultMode: 0440}}}}
  - {{name: data, emptyDir: {{}}}}
  - {{name: run, emptyDir: {{}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: db}}
spec: {{selector: {{app: db}}, ports: [{{port: 3306}}]}}
"""


def an_accounting(name: str, authority: str, namespace: str) -> str:
    return f"""
apiVersion: slurm.corral.dev/v1alpha1
kind: Accounting
metadata: {{name: {name}}}
spec:
  slurmKeyRef: {{name: keys, key: slurm.key}}
  jwtKeyRef: {{name: keys, key: jwt.key}}
  storage:
    host: db.{namespace}
    passwordKeyRef: {{name: db, key: password}}
    caKeyRef: {{name: db, key: {authority}}}
"""


def a_secret(name: str, **data: bytes) -> str:
    encoded = {key.replace("_", "."): base64.b64encode(value).decode() for key, value in data.items()}
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded})


def certified(names: tuple[str, ...]) -> tuple[Pair, Pair]:
    now = datetime.now(UTC)
    authority = issue(AUTHORITY, None, now)
    return authority, issue(Wanted(file="server", user=names[0], names=names), authority, now)


def ready(lab: Lab, accounting: str) -> tuple[str, str]:
    """Status and message of condition Ready."""
    found = json.loads(lab.kubectl("get", "accounting", accounting, "-o", "json"))
    said: dict[str, str] = next((c for c in found.get("status", {}).get("conditions", ()) if c["type"] == "Ready"), {})
    return said.get("status", ""), said.get("message", "")


def test_a_database_elsewhere_is_used_over_tls_and_a_certificate_that_is_not_good_is_told(lab: Lab) -> None:
    authority, server = certified((f"db.{lab.namespace}", "db"))
    other, _ = certified(("somebody.else",))
    lab.kubectl("apply", "-f", "-", stdin=a_secret("keys", slurm_key=b"s" * 1024, jwt_key=b"j" * 32))
    given = {"tls_crt": server.certificate, "tls_key": server.key, "good": authority.certificate}
    secret = a_secret("db", password=PASSWORD.encode(), wrong=other.certificate, **given)
    lab.kubectl("apply", "-f", "-", stdin=secret)
    lab.kubectl("apply", "-f", "-", stdin=DATABASE)
    lab.kubectl("wait", "--for=condition=Ready", "pod/db", "--timeout=180s")
    lab.kubectl("apply", "-f", "-", stdin=an_accounting("records", "good", lab.namespace))
    lab.kubectl("apply", "-f", "-", stdin=an_accounting("misled", "wrong", lab.namespace))

    lab.until("slurmdbd has its tables", lambda: ready(lab, "records")[0] != "True" and ready(lab, "records"))
    lab.until("the condition says why", lambda: "ertificate" not in ready(lab, "misled")[1] and ready(lab, "misled"))

    assert ready(lab, "misled")[0] == "False"
    assert PASSWORD not in lab.kubectl("get", "accounting", "-o", "yaml")
