"""What a message of the input may hold beside text."""

import openai
import pytest

from tests.integration.prompts.conversations import tokens


def test_a_file_is_read_and_an_image_refused(client):
    file = {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,SGVsbG8="}
    with_file = [{"role": "user", "content": [file, {"type": "input_text", "text": "What is it?"}]}]
    written = [{"role": "user", "content": "File a.txt:\n\nHello\n\nWhat is it?"}]
    assert tokens(client, with_file) == tokens(client, written)
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="answers", input=[{"role": "user", "content": [image]}])
    assert caught.value.param == "input[0].content[0]"
