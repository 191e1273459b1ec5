"""What the transport writes of header fields, any HPACK decoder reads, whatever table it allows."""

from hpack import Decoder
from hypothesis import given
from hypothesis import strategies as st

from service.transport.http2 import Http2

# Lengths of 127 and more, and of 16,511 and more, take further bytes.
LENGTHS = st.sampled_from([0, 1, 30, 126, 127, 128, 255, 16_510, 16_511]) | st.integers(0, 300)
BYTES = LENGTHS.flatmap(
    lambda length: st.binary(min_size=1, max_size=8).map(lambda some: (some * length)[:length])
)
FIELDS = st.lists(st.tuples(BYTES.filter(bool), BYTES), max_size=5)


@given(st.lists(FIELDS, min_size=1, max_size=4), st.lists(st.sampled_from([0, 1, 4096, 2**20]), max_size=4))
def test_blocks_of_one_connection_are_read_as_they_were(blocks, allowed):
    encoder, decoder = Http2().encoder, Decoder(max_header_list_size=2**20)
    for number, fields in enumerate(blocks):
        if number < len(allowed):
            encoder.header_table_size = decoder.max_allowed_table_size = allowed[number]
        assert [tuple(field) for field in decoder.decode(encoder.encode(fields), raw=True)] == fields
