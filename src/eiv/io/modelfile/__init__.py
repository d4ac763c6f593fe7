"""Saved models: one safetensors file with a JSON header, without any code."""

from eiv.io.modelfile.container import ModelFileError
from eiv.io.modelfile.models import load_model, read_header, save_model

__all__ = ["ModelFileError", "load_model", "read_header", "save_model"]
