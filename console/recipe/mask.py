"""A recipe's text with its secrets masked, for the journal."""

from __future__ import annotations

from console.base.errors import FileError
from console.base.secrets import MASK, is_secret_name, mask_text, secret_values
from console.base.toml_locate import load_document
from console.recipe.model import Recipe


def masked_source(recipe: Recipe) -> str:
    """`recipe.source` with the values of secret names, and of secret flags, replaced by ***; still the same lines."""
    values = secret_values(recipe.env, recipe.args)
    text = recipe.source
    try:
        heading, _, body = text.partition("\n")
        doc = load_document(text, recipe.file)
        prefix = ""
    except FileError:
        try:
            doc = load_document(body, recipe.file)
        except FileError:
            return mask_text(text, values)
        prefix = heading + "\n"
    spans = [
        span
        for path, span in doc.values.items()
        if len(path) == 2 and path[0] == "env" and isinstance(path[1], str) and is_secret_name(path[1])
    ]
    masked = doc.text
    for span in sorted(spans, key=lambda s: s.start, reverse=True):
        masked = f'{masked[: span.start]}"{MASK}"{masked[span.end :]}'
    return mask_text(prefix + masked, values)
