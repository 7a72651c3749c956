"""Sources of the zoo: `entry` defines an entry, a module per field lists them, `shape_only` exports."""

from scripts.zoo import torchvision_cpu  # noqa: F401  # before anything that imports torchvision
