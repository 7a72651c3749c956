"""Networks for detection, segmentation, depth and text of images."""

from __future__ import annotations

import transformers
from torch import nn

from scripts.zoo.entry import IMAGE, Entry, Input, hf, image

CAPTION = Input("input_ids", ("batch", 77))
PADDING = Input("attention_mask", ("batch", 77))


def on_resnet50(head: str, stages: tuple[str, ...], labels: int) -> nn.Module:
    """Return a detector on ResNet-50 from the same library; the default backbone would load weights by timm."""
    model = getattr(transformers, head)
    backbone = transformers.ResNetConfig(depths=[3, 4, 6, 3], out_features=list(stages))
    settings = {"use_timm_backbone": False, "attn_implementation": "eager"}
    return model(model.config_class(backbone_config=backbone, num_labels=labels, **settings))


MODELS = {
    "SegFormer-B0": Entry(
        hf("SegformerForSemanticSegmentation", num_labels=150),
        (image(512),),
    ),
    "DETR": Entry(
        lambda: on_resnet50("DetrForObjectDetection", ("stage4",), 91),
        (image(800),),
        ("logits", "pred_boxes"),
    ),
    "RT-DETR": Entry(
        hf("RTDetrForObjectDetection", anchor_image_size=[640, 640], num_labels=80),
        (image(640),),
        ("logits", "pred_boxes"),
    ),
    "SAM-encoder": Entry(
        hf("SamVisionModel"),
        (image(1024),),
        ("last_hidden_state",),
    ),
    "DepthAnything-small": Entry(
        hf("DepthAnythingForDepthEstimation"),
        (image(518),),
        ("predicted_depth",),
    ),
    "CLIP": Entry(
        hf("CLIPModel"),
        (CAPTION, PADDING, IMAGE),
        ("text_embeds", "image_embeds"),
    ),
}
