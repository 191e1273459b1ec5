"""The contract's messages as OpenAI's JSON: `openai_json` is what the rest of the service uses."""
