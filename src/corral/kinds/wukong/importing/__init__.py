"""Manifests of others that become Wukongs: `vm.novasphere.dev/v1alpha1`, and KubeVirt's own VirtualMachines. Pure."""

from corral.kinds.wukong.importing.documents import CannotImport, Document, Imported, imported

__all__ = ["CannotImport", "Document", "Imported", "imported"]
