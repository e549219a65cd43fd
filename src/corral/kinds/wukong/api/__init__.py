"""The kinds of KubeVirt, CDI and Multus, as far as we write and read them.

Written by hand: their definitions nest five levels without names, and generated classes would be hundreds with names
like VirtualMachineSpecTemplateSpecDomainDevicesInterfaces. `tests/integration/test_vm_models.py` holds every field here
against the real definitions: its name, its type, whether it is required and how its list is merged.
"""
