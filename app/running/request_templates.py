"""Templates of requests with placeholders, and JSON pointers into replies.

Inserted values cannot change the structure: in JSON, a placeholder is a value or part of a text; in a URL, it is
percent-encoded.
"""

import re
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

import jsonpointer
import orjson

_PLACE = re.compile(r"\{\{item((?:/[^{}]*)?)\}\}")
_LACKING = object()


class TemplateMismatch(ValueError):
    """Raised if an item or reply lacks a value that a template or pointer needs."""


def fill_template(template: Any, item: Any) -> Any:
    """Fill a JSON template with an item.

    A placeholder alone becomes the value; within a text, it becomes the value's text.

    >>> fill_template({"text": "{{item/title}}!", "raw": "{{item}}"}, {"title": "Hello"})
    {'text': 'Hello!', 'raw': {'title': 'Hello'}}
    """
    if isinstance(template, str):
        alone = _PLACE.fullmatch(template)
        if alone:
            return resolve_pointer(item, alone[1])
        return _PLACE.sub(lambda place: as_text(resolve_pointer(item, place[1])), template)
    if isinstance(template, list):
        return [fill_template(each, item) for each in template]
    if isinstance(template, dict):
        return {name: fill_template(each, item) for name, each in template.items()}
    return template


def fill_url(url: str, item: Any) -> str:
    """Fill a URL template with an item, percent-encoded.

    >>> fill_url("http://a/score?x={{item/x}}", {"x": "b&c=d"})
    'http://a/score?x=b%26c%3Dd'
    """
    if not _PLACE.search(url):
        return url
    try:
        filled = _PLACE.sub(lambda place: quote(as_text(resolve_pointer(item, place[1])), safe=""), url)
    except UnicodeError as error:
        raise TemplateMismatch("the item contains characters that a URL cannot contain") from error
    path = filled.partition("?")[0].split("/")[3:]
    if any(unquote(part) in (".", "..") for part in path):
        raise TemplateMismatch("the item must not change the path of the URL")
    return filled


def as_text(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


@lru_cache(maxsize=1000)
def _pointer(text: str) -> jsonpointer.JsonPointer:
    return jsonpointer.JsonPointer(text)


def resolve_pointer(document: Any, pointer: str) -> Any:
    """Return the part of a document at a JSON pointer; raises TemplateMismatch."""
    try:
        value = _pointer(pointer).resolve(document, _LACKING)
    except jsonpointer.JsonPointerException as error:
        raise TemplateMismatch(f"{pointer} not found") from error
    if value is _LACKING or isinstance(value, jsonpointer.EndOfList):
        raise TemplateMismatch(f"{pointer or 'value'} not found")
    return value
