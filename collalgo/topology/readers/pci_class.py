"""The kinds of PCI devices by their classes, as NCCL writes them."""

from collalgo.topology.model import Kind

#: Prefixes of the classes of PCI devices.
GPU_CLASSES = ("0x03", "0x12")
NIC_CLASS, NVSWITCH_CLASS, POWER_CLASS = "0x02", "0x068000", "0x068001"


def role(pci_class: str | None) -> Kind | None:
    """The kind of a PCI device by its class; None without a class."""
    if not pci_class:
        return None
    if pci_class.startswith(GPU_CLASSES):
        return Kind.GPU
    if pci_class.startswith(NIC_CLASS):
        return Kind.NIC
    return Kind.NVSWITCH if pci_class.startswith(NVSWITCH_CLASS) else Kind.PCI
