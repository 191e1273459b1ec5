"""OpenAI's Responses API as a typed gRPC stream, served from open models.

From the outside in: `server.py` wires things up; `rpc/` has the two faces, typed and HTTP; `run/` runs one
response; `dialect/` writes prompts and reads turns; `engine/` makes tokens; `wire/` is OpenAI's JSON.
Dependencies point inward only.
"""
