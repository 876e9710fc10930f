"""Contents stored apart: references that tell where they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.session.blobs import BlobForm, loaded, reference_in, short, stored
from ctxwrap.stores.memory import MemoryFiles


@pytest.mark.parametrize("form", ["text", "parts", "bytes"])
@given(data=st.binary())
def test_a_short_reference_tells_all_of_it(form: BlobForm, data: bytes) -> None:
    files = MemoryFiles()
    blob = stored(data, files, form, lasting=False)
    assert reference_in(short(blob)) == blob
    assert loaded(reference_in(short(blob)), files) == data


def test_other_references_stay_as_they_are() -> None:
    assert short({"id": "notes.md"}) == {"id": "notes.md"}
