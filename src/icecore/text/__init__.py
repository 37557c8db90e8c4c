"""From files of documents to tokens: reading, the tokenizer, and a folder that the task `language` reads."""

from icecore.text.prepare import Prepared, Settings, prepare_text
from icecore.text.tokenizer import TextOfTokens, load_tokenizer

__all__ = ["Prepared", "Settings", "TextOfTokens", "load_tokenizer", "prepare_text"]
