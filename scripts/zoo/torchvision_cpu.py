"""Make torchvision importable where its compiled operators do not load, as with a CPU build of torch.

Import it before anything that imports torchvision. No network of the zoo uses those operators.
"""

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
for schema in _SCHEMAS:
    name, _, signature = schema.partition("(")
    torch.library.define(f"torchvision::{name}", f"({signature}")
