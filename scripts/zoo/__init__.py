"""What the zoo is exported from: `entry` says what an entry is, a module per field lists them, `shape_only` exports."""

from scripts.zoo import torchvision_cpu as torchvision_cpu  # before anything that imports torchvision
