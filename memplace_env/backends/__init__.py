"""Plans outside the simulator: executed by ONNX Runtime, exported to firmware, measured on a GPU, made for ExecuTorch."""
