"""A real directory for tests: slapd in a pod, with one person and one group, for whoever binds and speaks TLS."""

import json
from datetime import UTC, datetime

from corral.local.certificates import Wanted, issue
from corral.local.images import import_archive
from corral.local.progress import Progress
from corral.local.roots import Root
from corral.testing.cluster import Cluster
from images.build import build
from images.recipes import Folder, Recipe

IMAGE = "corral/slapd:test"
BASE = "dc=example,dc=org"
BIND_DN = f"cn=reader,{BASE}"
BIND_PASSWORD = "the reader's password"
CAROLS_PASSWORD = "the password of carol"

SETTINGS = f"""
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix "{BASE}"
directory /tmp/db
TLSCACertificateFile /etc/directory-tls/ca.crt
TLSCertificateFile /etc/directory-tls/tls.crt
TLSCertificateKeyFile /etc/directory-tls/tls.key
security tls=1
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{BIND_DN}" read by self read by anonymous auth by * none
"""

PEOPLE = f"""
dn: {BASE}
objectClass: dcObject
objectClass: organization
o: Example

dn: {BIND_DN}
objectClass: organizationalRole
objectClass: simpleSecurityObject
userPassword: {BIND_PASSWORD}

dn: uid=carol,{BASE}
objectClass: account
objectClass: posixAccount
cn: Carol Example
uidNumber: 7001
gidNumber: 7100
homeDirectory: /home/carol
loginShell: /bin/bash
userPassword: {CAROLS_PASSWORD}

dn: cn=physics,{BASE}
objectClass: posixGroup
gidNumber: 7100
"""

START = """#!/bin/sh
set -eu
mkdir /tmp/db
slapadd -f /etc/directory/slapd.conf -l /etc/directory/people.ldif
exec slapd -d 0 -f /etc/directory/slapd.conf -h "ldap://0.0.0.0:3389 ldaps://0.0.0.0:3636"
"""

MANIFEST = f"""
apiVersion: v1
kind: Pod
metadata: {{name: slapd, labels: {{app: slapd}}}}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  containers:
    - name: slapd
      image: {IMAGE}
      command: [/usr/bin/tini, --, /usr/libexec/corral/slapd-run]
      readinessProbe: {{tcpSocket: {{port: 3389}}, periodSeconds: 1}}
      volumeMounts: [{{name: tls, mountPath: /etc/directory-tls}}]
  volumes: [{{name: tls, secret: {{secretName: directory}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: slapd}}
spec:
  selector: {{app: slapd}}
  ports: [{{name: ldap, port: 389, targetPort: 3389}}, {{name: ldaps, port: 636, targetPort: 3636}}]
"""


def recipe() -> Recipe:
    files = {"/etc/directory/slapd.conf": SETTINGS.encode(), "/etc/directory/people.ldif": PEOPLE.lstrip().encode()}
    return Recipe(
        name=IMAGE,
        root=Root(name="test-slapd", suite="trixie", packages=("slapd", "tini")),
        scripts={"slapd-run": START.encode()},
        folders={"/etc/directory": Folder()},
        files=files,
    )


def secret(namespace: str) -> str:
    """The bind password, slapd's certificate, and who signed it."""
    now, host = datetime.now(UTC), f"slapd.{namespace}"
    authority = issue(Wanted(file="ca", authority="ca", user="directory-ca"), None, now)
    server = issue(Wanted(file="server", user=host, names=(host,)), authority, now)
    data = {
        "password": BIND_PASSWORD,
        "ca.crt": authority.certificate.decode(),
        "tls.crt": server.certificate.decode(),
        "tls.key": server.key.decode(),
    }
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "directory"}, "stringData": data})


def provide(cluster: Cluster, namespace: str) -> None:
    """slapd is starting in the namespace, as Service slapd; what one needs to ask it is in the Secret directory."""
    with Progress((IMAGE,)) as progress:
        archive = build(recipe(), progress)
    import_archive(cluster.name, archive)
    cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=secret(namespace))
    cluster.kubectl("-n", namespace, "apply", "-f", "-", stdin=MANIFEST)
