"""Manifests of others, for what reads them: here as text, and on a real server by what becomes of them."""

NOVASPHERE = """
apiVersion: vm.novasphere.dev/v1alpha1
kind: Wukong
metadata: {name: web, namespace: lab, labels: {tier: front}, resourceVersion: '5', uid: abc}
spec:
  cpu: 2
  memory: 4Gi
  osImage: ubuntu-noble
  sshKeySecret: keys
  cloudInitUser: {name: admin, password: hunter2, shell: /bin/bash}
  networks:
  - {name: default}
  - name: lan
    type: bridge
    bridgeName: br0
    physicalInterface: ens4
    primary: true
    ipConfig: {mode: dhcp, gateway: 10.0.0.1}
  disks:
  - {name: root, size: 20Gi, storageClassName: longhorn, boot: true, image: 'docker://images.test/ubuntu:24'}
  highAvailability: {restartPolicy: Always, antiAffinity: true, nodeSelector: {zone: a}}
  startStrategy: {autoStart: true, runStrategy: RerunOnFailure}
  gpus: [{name: gpu0, deviceName: nvidia.com/T4}]
status: {phase: Running}
"""
KUBEVIRT = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: db, namespace: lab, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}', team: data}}
spec:
  runStrategy: RerunOnFailure
  dataVolumeTemplates:
  - metadata: {name: db-root}
    spec: {storage: {resources: {requests: {storage: 30Gi}}}, source: {http: {url: 'https://images.test/a'}}}
  template:
    metadata: {labels: {app: db}}
    spec:
      hostname: db
      evictionStrategy: LiveMigrate
      nodeSelector: {disk: ssd}
      terminationGracePeriodSeconds: 180
      domain:
        cpu: {cores: 2, sockets: 2, threads: 1, model: host-passthrough}
        memory: {guest: 8Gi}
        firmware: {bootloader: {efi: {secureBoot: true}}, serial: abc}
        features: {smm: {enabled: true}, hyperv: {relaxed: {}}}
        devices:
          disks:
          - {name: scratch, disk: {bus: virtio}}
          - {name: rootdisk, disk: {bus: virtio}, bootOrder: 1}
          - {name: live, cdrom: {bus: sata}}
          - {name: init, disk: {bus: virtio}}
          interfaces:
          - {name: pod, masquerade: {}, macAddress: '02:00:00:00:00:01'}
          - {name: lan, bridge: {}}
          tpm: {}
          rng: {}
      networks: [{name: pod, pod: {}}, {name: lan, multus: {networkName: lab/shared}}]
      readinessProbe: {tcpSocket: {port: 5432}, periodSeconds: 7}
      volumes:
      - {name: rootdisk, dataVolume: {name: db-root}}
      - {name: scratch, persistentVolumeClaim: {claimName: db-scratch}}
      - {name: live, containerDisk: {image: 'images.test/live:1'}}
      - {name: init, cloudInitNoCloud: {userData: "#cloud-config\\nhostname: db\\n"}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: db-scratch}
spec: {resources: {requests: {storage: 5Gi}}}
"""
# Everything in it is said in a way that needs another word here.
TWISTED = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: odd, namespace: lab}
spec:
  running: false
  template:
    metadata: {labels: {kubevirt.io/vm: odd}, creationTimestamp: null}
    spec:
      domain:
        resources: {requests: {cpu: 500m, memory: 2Gi}, limits: {memory: 4Gi}}
        clock: {utc: {offsetSeconds: 3600}}
        firmware: {bootloader: {bios: {useSerial: true}}}
        devices:
          disks:
          - {name: root, bootOrder: 2, disk: {bus: virtio, readonly: true}}
          - {name: iso, bootOrder: 1, cdrom: {bus: sata}}
          - {name: raw, lun: {bus: scsi}}
          - {name: cloudinit, disk: {}}
          - {name: init, disk: {}}
          interfaces:
          - {name: pod, bridge: {}, macAddress: '02-AB-00-00-00-01'}
          - {name: default, bridge: {}, macAddress: '02:AB:00:00:00:02'}
          - {name: tap, binding: {name: macvtap}}
          - {name: user, binding: {name: passt}}
          - {name: gone, bridge: {}, state: absent}
          watchdog: {name: dog, i6300esb: {action: poweroff}}
      networks:
      - {name: pod, pod: {vmNetworkCIDR: 10.9.0.0/24}}
      - {name: default, multus: {networkName: elsewhere/shared}}
      - {name: tap, multus: {networkName: tap}}
      - {name: user, multus: {networkName: lab/user}}
      - {name: gone, multus: {networkName: lab/gone}}
      livenessProbe: {httpGet: {port: 80, path: /up, scheme: HTTPS}}
      volumes:
      - {name: root, persistentVolumeClaim: {claimName: odd-root, hotpluggable: true}}
      - {name: iso, containerDisk: {image: 'images.test/live:1', imagePullPolicy: Always}}
      - {name: raw, persistentVolumeClaim: {claimName: raw}}
      - {name: cloudinit, persistentVolumeClaim: {claimName: more}}
      - name: init
        cloudInitConfigDrive:
          userDataBase64: I2Nsb3VkLWNvbmZpZwo=
          networkData: "version: 2"
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: odd-root, namespace: lab}
spec: {resources: {requests: {storage: 5Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: odd-root, namespace: other}
spec: {resources: {requests: {storage: 9Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: raw, namespace: lab}
spec: {resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: more, namespace: lab}
spec: {resources: {requests: {storage: 2Gi}}}
"""
GROWING = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: big, namespace: lab}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        cpu: {cores: 2, sockets: 2, threads: 2, maxSockets: 4, numa: {}}
        memory: {guest: 2Gi, maxGuest: 8Gi}
        resources: {requests: {memory: 2Gi, cpu: '4'}, limits: {cpu: '8'}}
        devices:
          disks: [{name: root, disk: {bus: virtio}}]
          watchdog: {name: dog, i6300esb: {}}
      volumes: [{name: root, containerDisk: {image: 'images.test/live:1'}}]
"""
BARE = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: bare, namespace: lab}
spec:
  runStrategy: Halted
  template:
    spec:
      domain:
        memory: {guest: 512Mi, maxGuest: 8Gi}
        devices: {disks: [{name: root, disk: {}}]}
      volumes: [{name: root, containerDisk: {image: 'images.test/live:1'}}]
"""
SIZED = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: sized, namespace: lab}
spec:
  runStrategy: Once
  instancetype: {name: u1.small, revisionName: sized-1}
  preference: {kind: VirtualMachinePreference, name: debian}
  template:
    spec:
      domain: {devices: {disks: [{name: root, disk: {}}]}}
      volumes: [{name: root, containerDisk: {image: 'images.test/live:1'}}]
"""
NETWORKS = """
apiVersion: vm.novasphere.dev/v1alpha1
kind: Wukong
metadata: {name: net, namespace: lab}
spec:
  cpu: 1
  memory: 1Gi
  restoreFromSnapshot: friday
  networks:
  - {name: default, ipConfig: {mode: dhcp}}
  - {name: shared, nadName: shared, vlanId: 7, bridgeName: br0, physicalInterface: ens4}
  - {name: fast, type: sriov}
  - {name: tap, type: macvlan, physicalInterface: ens5, vlanId: 9}
  - {name: lost, type: macvlan}
  - {name: a-name-of-some-length, bridgeName: br7, vlanId: 7}
  disks: [{name: root, size: 1Gi, storageClassName: longhorn}]
  highAvailability: {restartPolicy: OnFailure}
"""
SNAPSHOT = """
apiVersion: vm.novasphere.dev/v1alpha1
kind: WukongSnapshot
metadata: {name: s}
spec: {wukongName: web}
"""
SAMPLES = {
    "NOVASPHERE": NOVASPHERE,
    "KUBEVIRT": KUBEVIRT,
    "TWISTED": TWISTED,
    "GROWING": GROWING,
    "BARE": BARE,
    "SIZED": SIZED,
    "NETWORKS": NETWORKS,
    "SNAPSHOT": SNAPSHOT,
}
