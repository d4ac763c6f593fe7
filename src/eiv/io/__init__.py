"""Tables, model files and ONNX."""
