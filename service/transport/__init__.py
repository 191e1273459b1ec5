"""The gRPC server: gRPC over HTTP/2 on h2 and asyncio, in the place of grpc.aio's.

Why it is not grpc.aio's: that one makes a system call for every message, and cannot be told to wait for more.
Here all that the calls of a connection write in one turn of the event loop leaves in one piece.

    server        addresses, services, interceptors; the limit of calls; stopping
    connection    one TCP connection: bytes to HTTP/2 events, calls to bytes
    send_queue    which call of a connection sends next
    frames        the frames of a connection: how many a turn takes
    closing       the end of a connection: who may read the last, and for how long
    http2         h2, with what serving calls needs changed
    call          one RPC: what servicers get as their context
    context       the part of that which is the same for every call
    incoming      a call's request: messages that wait to be read
    outgoing      a call's response: bytes that wait to be sent
    handlers      the four forms of a handler, and the status that a call ends with
    headers       header fields to a call's metadata and back (knows no IO)
    framing       bytes to messages and back (knows no IO)
    faults        what a client can do wrong (knows no IO)

It knows nothing of the service. Its rules are RFC 9113 and gRPC's own, in https://github.com/grpc/grpc:
doc/PROTOCOL-HTTP2.md ("the protocol"), statuscodes.md and compression.md. No TLS, no compressed responses.
"""
