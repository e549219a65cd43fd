"""`python -m corral.testing.guests`: makes what guests need, QEMU and a Debian, once a user. Takes minutes."""

import sys

from corral.testing.guests.disk import debian_disk, qemu_root

if __name__ == "__main__":
    sys.stdout.write(f"guests boot {debian_disk()} by QEMU of {qemu_root()}\n")
