"""Plans outside the simulator: executed by ONNX Runtime, exported, measured on a GPU, made for ExecuTorch."""
