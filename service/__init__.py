"""OpenAI's Responses API as a typed gRPC stream, served from open models.

From the outside in: `server.py` starts and stops the server, and `wiring.py` puts its parts together;
`transport/` speaks gRPC; `rpc/` has the two faces, typed and HTTP; `api/` has the operations that both offer;
`run/` runs one response; `dialect/` writes prompts and reads turns; `engine/` makes tokens; `store/` keeps
responses and conversations; `files/` reads the files of requests; `wire/` is OpenAI's JSON.
Dependencies point inward only.
"""
