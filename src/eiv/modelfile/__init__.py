"""Saved models: one safetensors file with a JSON header, and no code in it."""

from eiv.modelfile.container import ModelFileError
from eiv.modelfile.models import load_model, read_header, save_model

__all__ = ["ModelFileError", "load_model", "read_header", "save_model"]
