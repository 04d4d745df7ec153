"""Templates of requests: places for the item in a URL and in a JSON body; pointers into replies.

What is put in can change no structure: in JSON a place is a value or a part of a text, in a URL it is percent-encoded.
"""

import re
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

import jsonpointer
import orjson

_PLACE = re.compile(r"\{\{item((?:/[^{}]*)?)\}\}")
_LACKING = object()


class WrongShape(ValueError):
    """An item, or a reply, has not what a template or pointer asks for."""


def fill_template(template: Any, item: Any) -> Any:
    """Put an item into a JSON template: alone a place becomes the value, within a text its text.

    >>> fill_template({"text": "{{item/title}}!", "raw": "{{item}}"}, {"title": "Hello"})
    {'text': 'Hello!', 'raw': {'title': 'Hello'}}
    """
    if isinstance(template, str):
        alone = _PLACE.fullmatch(template)
        if alone:
            return part_of(item, alone[1])
        return _PLACE.sub(lambda place: as_text(part_of(item, place[1])), template)
    if isinstance(template, list):
        return [fill_template(each, item) for each in template]
    if isinstance(template, dict):
        return {name: fill_template(each, item) for name, each in template.items()}
    return template


def fill_url(url: str, item: Any) -> str:
    """Put an item into a URL, percent-encoded.

    >>> fill_url("http://a/score?x={{item/x}}", {"x": "b&c=d"})
    'http://a/score?x=b%26c%3Dd'
    """
    if not _PLACE.search(url):
        return url
    try:
        filled = _PLACE.sub(lambda place: quote(as_text(part_of(item, place[1])), safe=""), url)
    except UnicodeError as error:
        raise WrongShape("the item holds what no address can") from error
    path = filled.partition("?")[0].split("/")[3:]
    if any(unquote(part) in (".", "..") for part in path):
        raise WrongShape("the item would lead to another path")
    return filled


def as_text(value: Any) -> str:
    """Write a value where a text is wanted: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


@lru_cache(maxsize=1000)
def _pointer(text: str) -> jsonpointer.JsonPointer:
    return jsonpointer.JsonPointer(text)


def part_of(document: Any, pointer: str) -> Any:
    """Give the part of a document at a JSON pointer; raises WrongShape if it is not there."""
    try:
        value = _pointer(pointer).resolve(document, _LACKING)
    except jsonpointer.JsonPointerException as error:
        raise WrongShape(f"{pointer} not found") from error
    if value is _LACKING or isinstance(value, jsonpointer.EndOfList):
        raise WrongShape(f"{pointer or 'value'} not found")
    return value
