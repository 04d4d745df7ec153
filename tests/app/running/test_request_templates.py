"""Templates and pointers: what is put in changes no structure."""

from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.running.request_templates import TemplateMismatch, fill_template, fill_url, resolve_pointer

TREES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(TREES)
def test_an_item_goes_through_a_body_as_it_is(item: Any) -> None:
    sent = orjson.loads(orjson.dumps(fill_template({"model": "m", "input": ["{{item}}"]}, item)))
    assert sent == {"model": "m", "input": [item]}


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60).filter(lambda text: text not in (".", "..")))
def test_a_text_in_a_url_stays_where_it_is_put(text: str) -> None:
    parts = urlsplit(fill_url("http://host.example:81/a/{{item}}/b?x={{item}}&y=1", text))
    assert parts.netloc == "host.example:81"
    assert parts.path.count("/") == 3
    assert len(parts.query.split("&")) == 2
    assert not parts.fragment


def test_a_place_within_a_text_takes_a_texts_value_and_writes_others_as_json() -> None:
    assert fill_template("<{{item/a}}|{{item/b}}>", {"a": "x", "b": [1, 2]}) == "<x|[1,2]>"
    assert fill_template("say {{item}}", "{{item}}") == "say {{item}}"


@pytest.mark.parametrize("item", ["..", ".", "\ud800"])
def test_no_item_leads_to_another_path(item: str) -> None:
    with pytest.raises(TemplateMismatch):
        fill_url("http://host.example/score/{{item}}/admin", item)
    assert fill_url("http://host.example/score/{{item}}", "a..b").endswith("/a..b")


@pytest.mark.parametrize("pointer", ["/a/b", "/0", "/a/-"])
def test_what_is_not_there_is_said(pointer: str) -> None:
    with pytest.raises(TemplateMismatch, match=pointer):
        resolve_pointer({"a": [1]}, pointer)
