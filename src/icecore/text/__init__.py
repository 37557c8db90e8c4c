"""Turn documents into tokens: file formats, the tokenizer, and the folder that the task `language` reads."""

from icecore.text.prepare import Prepared, Settings, prepare_text
from icecore.text.tokenizer import TextOfTokens, load_tokenizer

__all__ = ["Prepared", "Settings", "TextOfTokens", "load_tokenizer", "prepare_text"]
