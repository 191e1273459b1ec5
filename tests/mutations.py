"""The mutation log: each rule, the code that keeps it broken once, and the tests that then fail.

    python -m tests.mutations > tests/MUTATIONS.md

It works on copies and takes some minutes. A mutation that no test notices is a fault of the tests: the last
line says how many there are, and the exit status is 1.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
HARMONY = "service/dialect/harmony/splitter.py"
HEADER = "service/dialect/harmony/header.py"
CHAT = "service/dialect/chat/splitter.py"
CALL = "service/dialect/chat/call.py"
EVENT_LOG = "service/store/event_log.py"
RESPONSES = "service/store/responses.py"
CONVERSATIONS = "service/store/conversations.py"
PROMISES = "service/run/promises.py"
FRAMING = "service/transport/framing.py"
HEADERS = "service/transport/headers.py"
HTTP2 = "service/transport/http2.py"
FRAMES = "service/transport/frames.py"
CONNECTION = "service/transport/connection.py"
SEND_QUEUE = "service/transport/send_queue.py"
RPC = "service/transport/call.py"
CLOSING = "service/transport/closing.py"
INCOMING = "service/transport/incoming.py"
OUTGOING = "service/transport/outgoing.py"
HANDLERS = "service/transport/handlers.py"
CUSTOM = "service/run/custom_input.py"
SPLITTERS = (
    "tests/unit/test_splitter.py",
    "tests/conformance",
    "-k",
    "not grpc and not envoy and not prompt",
)
STATE = (
    *("tests/integration/state", "tests/integration/background"),
    *("-k", "sqlite and not killed_again and not two_services"),
)
STORE = (
    *("tests/integration/test_store_conversations.py", "tests/integration/test_store_time_to_live.py"),
    *("tests/integration/test_store_leases.py", "tests/integration/test_store_event_log.py"),
)
DATABASE = ("tests/integration/test_database.py",)
TURNS = (
    *("tests/property/test_custom_input.py", "tests/property/test_truncation.py"),
    *("tests/integration/test_tools.py", "tests/integration/prompts"),
)
STOPPING = ("tests/integration/test_stopping.py", "tests/property/test_run.py", "tests/unit/test_flush.py")
PLACES = ("tests/unit/test_preparation.py", "tests/unit/test_files.py")
TRANSPORT = (
    *("tests/unit/test_framing.py", "tests/unit/test_headers.py", "tests/unit/test_outgoing.py"),
    *("tests/integration/test_transport.py", "tests/integration/test_transport_windows.py"),
    *("tests/integration/test_transport_slow_clients.py", "tests/integration/test_transport_endings.py"),
    *("tests/integration/test_transport_malformed.py", "tests/integration/test_transport_floods.py"),
    "tests/integration/test_transport_requests.py",
    "--maxfail=4",
)
GATEWAY_MEMORY = ("tests/integration/test_gateway_memory.py",)
SHOWN = 3
# A stream that never ends makes test after test wait for its time to be over.
LIMITS = ("--maxfail=4", "--timeout=60")
MOST_S = 300


class Mutation(NamedTuple):
    """One break: in `file`, the only `old` becomes `new`."""

    rule: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = SPLITTERS


MUTATIONS = [
    Mutation("Harmony 1", "the recipient is not looked for behind the channel", HEADER,
             "elif found := _RECIPIENT.match(text, at):", "elif found := _RECIPIENT.match(text, at) if marker == Marker.NONE else None:"),
    Mutation("Harmony 1", "glued names are not mended", HEADER, "if name.endswith(suffix) and", "if False and"),
    Mutation("Harmony 1", "a content type is taken for text", HEADER,
             "elif not (found := _CONTENT_TYPE.match(text, at)):", "elif not (found := None):"),
    Mutation("Harmony 1", "the channel decides before the recipient", HEADER, "    if name:\n", "    if name and kind is not Kind.REASONING:\n"),
    Mutation("Harmony 1", "the first channel counts, not the last", HEADER,
             "kind, said = CHANNEL_KINDS[found[1]], True", "kind, said = kind or CHANNEL_KINDS[found[1]], True"),
    Mutation("Harmony 2", "a start in content is dropped", HARMONY, "case _ if token in (START, END, CALL):", "case _ if token in (END, CALL) or not in_content and token == START:"),
    Mutation("Harmony 2", "a channel marker in content is dropped", HARMONY,
             "                if in_content:\n                    self._end_message(complete=True)\n                    self._begin_header(role_expected=False)\n                self._pieces", "                if in_content:\n                    return\n                self._pieces"),
    Mutation("Harmony 3", "a message marker in content begins anew", HARMONY, "                if not in_content:\n                    self._open_message()", "                self._open_message()"),
    Mutation("Harmony 3", "an unknown control token ends the message", HARMONY, "            case _:\n                pass\n\n    def _content", "            case _:\n                if in_content:\n                    self._end_message(complete=True)\n                    self._begin_header(role_expected=False)\n\n    def _content"),
    Mutation("Harmony 4", "a header that breaks off is forgotten", HARMONY, "        if header.said or header.rest:\n", "        if False:\n"),
    Mutation("Harmony 5", "tokens behind a return count", HARMONY, "while at < count and not self.ended:", "while at < count:"),
    Mutation("Harmony 5", "one call only is not kept", HARMONY, "if self._one_call and", "if False and"),
    Mutation("Harmony 6", "text without a marker is read as a header", HARMONY, "header = self._header(words=called or self._has_marker())", "header = self._header(words=True)"),
    Mutation("Harmony 6", "headers have no limit", HARMONY, "if self._header_tokens > MAX_HEADER_TOKENS:", "if False:"),
    Mutation("Harmony 7", "invalid bytes vanish", HARMONY, 'self._decoder = _new_decoder("replace")', 'self._decoder = _new_decoder("ignore")'),
    Mutation("Harmony 7", "held bytes are forgotten at the end of a message", HARMONY, '        self._text(self._decoder.decode(b"", final=True))\n', ""),
    Mutation("Harmony 7", "held bytes leak into the next message", HARMONY, '        self._text(self._decoder.decode(b"", final=True))\n        self._decoder.reset()\n', ""),
    Mutation("Harmony 8", "a cut message is complete", HARMONY, "self._end_message(complete=not cut)", "self._end_message(complete=True)"),
    Mutation("Harmony 8", "text in a cut header is lost", HARMONY, "if not half_word.fullmatch(header.rest):", "if False:"),
    Mutation("Harmony 8", "half a header word is shown", HARMONY, "if not half_word.fullmatch(header.rest):", "if True:"),
    Mutation("Harmony 8", "nothing stands for a cut first header", HARMONY, "elif not self._said and self.tokens:", "elif False:"),
    Mutation("Harmony 8", "the end does not close a header", HARMONY, "                self._close_header(called=False)\n            case _State.DONE:", "                pass\n            case _State.DONE:"),
    Mutation("Chat 1", "thoughts are answers", CHAT, "Kind.REASONING if self._state is _State.THINK else Kind.ANSWER", "Kind.ANSWER"),
    Mutation("Chat 2", "what is no call is lost", CHAT, '        self._say("".join(self._raw))\n', ""),
    Mutation("Chat 2", "a call in a thought is part of it", CHAT, 'case "<tool_call>":', 'case "<tool_call>" if self._state is _State.TEXT:'),
    Mutation("Chat 3", "bare calls are answers", CHAT, 'if text.startswith("{") and self._functions:', "if False:"),
    Mutation("Chat 3", "any bare object with a name is a call", CHAT, "(self._state is _State.TAGGED_CALL or self._call.name in self._functions)", "True"),
    Mutation("Chat 4", "a stray closing tag ends the answer", CHAT, 'case "</think>" if self._state is _State.THINK:', 'case "</think>":'),
    Mutation("Chat 5", "white space before a tag is text", CHAT, "    def _close(self, *, complete: bool) -> None:\n        self._spaces.clear()\n", '    def _close(self, *, complete: bool) -> None:\n        if self._kind is not None:\n            self._emit("".join(self._spaces))\n        self._spaces.clear()\n'),
    Mutation("Chat 5", "white space at the start is text", CHAT, "        if self._kind is None:\n            text = text.lstrip()\n        body", "        body"),
    Mutation("Chat 6", "half a tag goes out as text", CHAT, "half = _HALF_TAG.search(text)", "half = None"),
    Mutation("Chat 6", "held text is forgotten at the end", CHAT, "        if held:\n            self._say(held)\n", ""),
    Mutation("Chat 6", "white space at the end is forgotten", CHAT, '        if self._kind is Kind.ANSWER:\n            self._emit("".join(self._spaces))\n', ""),
    Mutation("Chat 7", "the end token does not end the turn", CHAT, "if token == RETURN:\n                    self._finish(complete=True)", "if False:\n                    pass"),
    Mutation("Chat 7", "one call only is not kept", CHAT, "if was_call and self._one_call:", "if False:"),
    Mutation("Chat 8", "bytes are decoded token by token", CHAT, "self._text(self._decoder.decode(self._token_bytes[token]))", 'self._text(self._token_bytes[token].decode(errors="replace"))'),
    Mutation("Chat 9", "a cut message is complete", CHAT, "        self._close(complete=complete)\n        self._end_turn()", "        self._close(complete=True)\n        self._end_turn()"),
    Mutation("Chat 9", "nothing stands for a cut first call", CHAT, "if not complete and not self._said and self.tokens:", "if False:"),
    Mutation("Calls", "strings are not told from structure", CALL, "            case '\"':\n                self._in_string = True\n", "            case '\"':\n"),
    Mutation("Calls", "an escaped quote ends a string", CALL, 'elif piece == "\\\\":', "elif False:"),
    Mutation("Calls", "arguments wait for nothing", CALL, "elif self._key in _ARGUMENTS:", "elif self._key in _ARGUMENTS and self.name:"),
    Mutation("Calls", "null is handed over", CALL, "                if value is None:\n", "                if False:\n"),
    Mutation("Owner", "a response is anybody's", RESPONSES, "            & (RESPONSES.c.owner == owner)\n", "", STATE),
    Mutation("Owner", "a conversation is anybody's", CONVERSATIONS, "CONVERSATIONS.c.id == conversation_id, CONVERSATIONS.c.owner == owner\n    )\n    if lock", "CONVERSATIONS.c.id == conversation_id\n    )\n    if lock", STATE),
    Mutation("Owner", "any key may call", "service/rpc/auth.py", "return sum([hmac.compare_digest(given, key) for key in self._keys]) > 0", "return True", ("tests/integration/state/test_owners.py", "-k", "keys")),
    Mutation("Owner", "a seal is anybody's", "service/api/sealing.py", 'if whose != f"{owner} {kind}":', 'if not whose.endswith(f" {kind}"):', TURNS),
    Mutation("Store", "what is too old is still there", RESPONSES, "            & (RESPONSES.c.expires_at > self._clock())\n", "", STATE),
    Mutation("Store", "a gap in a chain goes unnoticed", RESPONSES, "if missing is not None:", "if not found:", STATE),
    Mutation("Store", "what is not to be kept is kept", "service/api/responses.py", "(ended := ended_response(events[-1])) and ended.store:", "(ended := ended_response(events[-1])):", STATE),
    Mutation("Store", "a conversation does not grow", CONVERSATIONS, "        await _insert(connection, conversation_id, turn)\n", "", STATE),
    Mutation("Background", "a producer does not notice an end", EVENT_LOG, "        if not done.rowcount:\n            raise Ended", "        if not done.rowcount:\n            return", STATE),
    Mutation("Background", "an end can be followed by another", EVENT_LOG, "        await connection.execute(delete(LEASES).where(LEASES.c.response_id == response_id))\n", "", STATE),
    Mutation("Background", "leases are not renewed", EVENT_LOG, "await connection.execute(update(LEASES).where(mine).values(lease_until=self._lease_until()))", "pass", STATE),
    Mutation("Background", "nobody ends what is abandoned", EVENT_LOG, "for response_id in abandoned:", "for response_id in ():", STATE),
    Mutation("Background", "the last event comes again", EVENT_LOG, "EVENTS.c.sequence_number > after", "EVENTS.c.sequence_number >= after", STATE),
    Mutation("Background", "finished items are lost", "service/store/ending.py", "if event.type == ITEM_DONE]", "if False]", STATE),
    Mutation("Background", "one that cannot be ended keeps the others from it", EVENT_LOG, "                except Exception:\n", "                except ZeroDivisionError:\n", STORE),
    Mutation("Background", "a flush writes the row of the input", EVENT_LOG, 'if any(event.HasField("in_progress") for event in events):', "if True:", STORE),
    Mutation("Background", "an end reads every event", EVENT_LOG, "select(EVENTS.c.event).where(of_response, EVENTS.c.type == ITEM_DONE)", "select(EVENTS.c.event).where(of_response)", STORE),
    Mutation("Background", "it may grow too large", EVENT_LOG, "if size > self._limits.max_bytes:", "if False:", STORE),
    Mutation("Background", "a lease that has been renewed counts as run out", EVENT_LOG, "partial(failed, message=_GONE), run_out)", "partial(failed, message=_GONE))", STORE),
    Mutation("Background", "what is made here counts as abandoned", EVENT_LOG, "if response_id not in alive:", "if True:", STORE),
    Mutation("Background", "it is forgotten while it is made", EVENT_LOG, "new_row(owner, response, items, NEVER)", "new_row(owner, response, items, self._store.expiry())", STORE),
    Mutation("Background", "readers forget what they have seen", "service/api/background.py", "                done += done_items(page.events)\n", "", STORE),
    Mutation("Background", "a sweep keeps leases from being renewed", "service/api/background.py", "        async with asyncio.TaskGroup() as group:\n", "        async with asyncio.TaskGroup() as group:\n            await self._try(self._store.sweep)\n", STORE),
    Mutation("Conversation", "a full one stops what ends", CONVERSATIONS, "        turn = [*items,", "        await _check_fits(connection, conversation_id, list(items))\n        turn = [*items,", STORE),
    Mutation("Conversation", "a full one takes requests", CONVERSATIONS, "            await _check_fits(connection, conversation_id, coming)\n", "", STORE),
    Mutation("Conversation", "what has failed is added", CONVERSATIONS, "            or response.status not in _ADDED\n", "", STORE),
    Mutation("Conversation", "its row is not locked", CONVERSATIONS, "        query = query.with_for_update()", "        pass", STORE),
    Mutation("Conversation", "an id may come again", CONVERSATIONS, "            check_unique(coming, await _taken(connection, conversation_id, coming))\n", "", STORE),
    Mutation("Conversation", "an id that came in meanwhile is an obstacle", CONVERSATIONS, "            if item_id(item) in taken:", "            if False:", STORE),
    Mutation("Conversation", "a page reads the whole list", CONVERSATIONS, ".limit(bounds.limit + 1)", "", STORE),
    Mutation("Chain", "short lives are not renewed", RESPONSES, "min(_MAX_RENEWAL_S, self._limits.ttl_s // _RENEWALS)", "_MAX_RENEWAL_S", STORE),
    Mutation("Chain", "it is not gone on with in the background", EVENT_LOG, "        await self._store.go_on(connection, owner, response, items)\n", "", STORE),
    Mutation("Chain", "a sweep takes all at once", RESPONSES, "_SWEPT_AT_ONCE: Final = 100", "_SWEPT_AT_ONCE: Final = 100_000", STORE),
    Mutation("Database", "everybody may read the file", "service/store/address.py", "    file.touch(mode=_OWNER_ONLY)\n", "", DATABASE),
    Mutation("Database", "a server may never answer", "service/store/address.py", '        "command_timeout": _ANSWER_TIMEOUT_S,\n', "", DATABASE),
    Mutation("Database", "a process that stands still keeps its locks", "service/store/address.py", "    _prepare_postgresql(engine)\n", "", STORE),
    Mutation("Database", "a newer one is a traceback", "service/store/database.py", "except CommandError as error:", "except ZeroDivisionError as error:", DATABASE),
    Mutation("Tools", "a required call may be left out", PROMISES, "if self.call_required and not calls:", "if False:", TURNS),
    Mutation("Tools", "any tool may be called", PROMISES, "if self.calls is not None and name not in self.calls:", "if False:", TURNS),
    Mutation("Tools", "held escapes of a text are lost", CUSTOM, "                self._held = source[at:]\n", "", TURNS),
    Mutation("Tools", "a text without its object loses its beginning", CUSTOM, "return \"\".join([*self._opening, arguments])", "return arguments", TURNS),
    Mutation("Tools", "arguments of strict functions are not checked", PROMISES, "if fault := self._arguments_fault(call, name):", "if fault := None:", TURNS),
    Mutation("Format", "an answer is not checked", PROMISES, "if fault := self._answer_fault(item):", "if fault := None:", TURNS),
    Mutation("Reasoning", "hidden thoughts are shown", "service/run/builder.py", "hides_reasoning=not self._show_reasoning,", "hides_reasoning=False,", TURNS),
    Mutation("Truncation", "outputs stay without their calls", "service/run/truncation.py", "and _call_id(item) in calls", "and False", TURNS),
    Mutation("Stopping", "what outlasts its time is left running", "service/run/drain.py", "        for break_off in tuple(self._break_offs):\n            break_off(Unavailable(STOPPED))\n", "", STOPPING),
    Mutation("Stopping", "what begins late is left running", "service/run/drain.py", "        if self.is_over:\n            break_off", "        if False:\n            break_off", STOPPING),
    Mutation("Stopping", "nobody is to try again elsewhere", "service/api/responses.py", "Unavailable(message) if self._drain.is_over else EngineFailed(message)", "EngineFailed(message)", STOPPING),
    Mutation("Stopping", "readers of what goes on elsewhere are not told", "service/api/background.py", "if self._drain.is_over and not is_made_here:", "if False:", STOPPING),
    Mutation("Stopping", "what has not been begun to be read cannot be broken off", "service/run/flush.py", "does not come to say so.\n            self._ended = True\n            self._due.set()", "does not come to say so.", STOPPING),
    Mutation("Stopping", "what has been read whole is broken off", "service/run/flush.py", "        if not self._ended:\n            self._fault", "        if True:\n            self._fault", STOPPING),
    Mutation("Places", "any number may wait", "service/places.py", "if self._places.locked() and self._waiting >= self._max_waiting:", "if False:", PLACES),
    Mutation("Places", "who gives up waiting leaves a gap", "service/places.py", "        finally:\n            self._waiting -= 1", "        except ZeroDivisionError:\n            self._waiting -= 1", PLACES),
    Mutation("Places", "a place is not given back", "service/places.py", "        self._places.release()", "        pass", PLACES),
    Mutation("Transport", "a message is sent at once, not with its turn", RPC, "        self.outgoing.add(data)\n        self._link.ready(self)", "        self.outgoing.add(data)\n        self._link.ready(self)\n        self._link._flush()", TRANSPORT),
    Mutation("Transport", "a call may hold any amount", RPC, "if self.outgoing.waiting_bytes > HELD_BYTES and", "if False and", TRANSPORT),
    Mutation("Transport", "what the transport holds has no limit", CONNECTION, "            if self._may_write:\n", "            if True:\n", TRANSPORT),
    Mutation("Transport", "answers to a client that does not read have no limit", CONNECTION, "if transport.get_write_buffer_size() > _UNSENT_ANSWERS_BYTES:", "if False:", TRANSPORT),
    Mutation("Transport", "a large message needs no framing limit", FRAMING, "if length > self._max_bytes:", "if False:", TRANSPORT),
    Mutation("Transport", "bombs are unpacked", FRAMING, "unpacker.decompress(compressed.body, self._max_bytes + 1)", "unpacker.decompress(compressed.body)", TRANSPORT),
    Mutation("Transport", "a client's GOAWAY ends its calls", HTTP2, "        self.state_machine = _StateMachine()\n", "", TRANSPORT),
    Mutation("Transport", "a client's GOAWAY drops what is to be sent", HTTP2, "def clear_outbound_data_buffer(", "def do_not_clear_outbound_data_buffer(", TRANSPORT),
    Mutation("Transport", "frames are held whatever their length", HTTP2, "if self.incoming_buffer.next_bytes >", "if False and self.incoming_buffer.next_bytes >", TRANSPORT),
    Mutation("Transport", "what happened since an event is not looked at", HTTP2, "        if stream is None or stream.closed:\n            return\n", "        assert stream is not None\n", TRANSPORT),
    Mutation("Transport", "who is refused must end its request", HTTP2, "            self.reset_stream(stream_id, ErrorCodes.NO_ERROR)", "            pass", TRANSPORT),
    Mutation("Transport", "who has waited longest for a window goes last", SEND_QUEUE, "line.popitem(last=False)", "line.popitem()", TRANSPORT),
    Mutation("Transport", "room in the connection's window wakes nobody", SEND_QUEUE, "return bool(self._blocked) and self._http2.outbound_flow_control_window > 0", "return False", TRANSPORT),
    Mutation("Transport", "room in a stream's window wakes nobody", CONNECTION, "            case events.WindowUpdated(stream_id=stream_id) if stream_id:\n", "            case events.WindowUpdated(stream_id=stream_id) if False:\n", TRANSPORT),
    Mutation("Transport", "a changed window wakes nobody", CONNECTION, "                    for stream_id in self._calls:\n                        self._wake(stream_id)", "                    pass", TRANSPORT),
    Mutation("Transport", "messages that wait are acknowledged", INCOMING, "if self._unacknowledged_bytes and not self._messages:", "if self._unacknowledged_bytes:", TRANSPORT),
    Mutation("Transport", "a part of a message is not acknowledged", INCOMING, "        finally:\n            self._release()", "        finally:\n            pass", TRANSPORT),
    Mutation("Transport", "the windows of calls that end leak", INCOMING, "        self._messages.clear()\n        self._release()", "        self._messages.clear()", TRANSPORT),
    Mutation("Transport", "a reset leaves the handler running", RPC, "            self._code = Code.CANCELLED.value\n            self._over()\n            self._cancel()", "            self._code = Code.CANCELLED.value\n            self._over()", TRANSPORT),
    Mutation("Transport", "deadlines are left to the client", RPC, "        if head.timeout_s is not None:", "        if False:", TRANSPORT),
    Mutation("Transport", "the next call does not wait for a cancelled one", HANDLERS, "        if cancelled:", "        if False:", TRANSPORT),
    Mutation("Transport", "a response that nobody fetches is kept", RPC, "            self._link.abandon(self)", "            pass", TRANSPORT),
    Mutation("Transport", "who reads nothing is waited for", OUTGOING, "if self._taken_bytes == before:", "if False:", TRANSPORT),
    Mutation("Transport", "who reads slowly is cut off", OUTGOING, "if self._taken_bytes == before:", "if True:", TRANSPORT),
    Mutation("Transport", "a bug is told to the client", HANDLERS, 'call.end(Code.UNKNOWN, "The server had an internal error.")', "call.end(Code.UNKNOWN, str(error))", TRANSPORT),
    Mutation("Transport", "unary calls take any number of messages", INCOMING, "if len(self._messages) == 1 and", "if self._messages and", TRANSPORT),
    Mutation("Transport", "header fields are not checked", HEADERS, "        _check_field(name, value)\n", "", TRANSPORT),
    Mutation("Transport", "values must be ASCII", HEADERS, 'yield name.decode(), value.decode("latin-1")', "yield name.decode(), value.decode()", TRANSPORT),
    Mutation("Transport", "status messages are sent as they are", HEADERS, 'percent_encoded(message)))', 'message.encode()))', TRANSPORT),
    Mutation("Transport", "there may be any number of calls", "service/transport/server.py", "if len(self._tasks) >= self._max_concurrent_calls:", "if False:", TRANSPORT),
    Mutation("Transport", "a server that stops loses what has not been read", "service/transport/server.py", "        until = max(until, loop.time() + _LAST_S)", "        until = loop.time() + _LAST_S", TRANSPORT),
    Mutation("Transport", "who reads the last slowly is cut off", CLOSING, "if unread < unread_before:", "if unread_before is None:", TRANSPORT),
    Mutation("Transport", "who does not read the last is waited for", CLOSING, "if unread < unread_before:", "if True:", TRANSPORT),
    Mutation("Transport", "what is on its way is lost when a connection closes", CLOSING, "        transport.write_eof()\n", "        transport.close()\n", TRANSPORT),
    Mutation("Gateway", "what nobody reads is held however little memory there is", "gateway/envoy.yaml", "          - {timer: HTTP_DOWNSTREAM_CONNECTION_IDLE, min_timeout: 10s}\n", "", GATEWAY_MEMORY),
    Mutation("Gateway", "silent streams go, too, when memory runs short", "gateway/envoy.yaml", "{timer: HTTP_DOWNSTREAM_STREAM_FLUSH, min_timeout: 10s}", "{timer: HTTP_DOWNSTREAM_STREAM_IDLE, min_timeout: 5s}", GATEWAY_MEMORY),
    Mutation("Transport", "stopping does not wait", "service/transport/server.py", "        if self._tasks and grace:", "        if False:", TRANSPORT),
    Mutation("Transport", "a turn takes all that has come", FRAMES, "        if self._work_left <= 0:\n            raise StopIteration\n", "", TRANSPORT),
    Mutation("Transport", "what a turn has left is forgotten", CONNECTION, '            self.data_received(b"")', "            pass", TRANSPORT),
    Mutation("Transport", "a turn reads on whatever it has left", CONNECTION, "                self._pause()\n            self._schedule_flush()", "                pass\n            self._schedule_flush()", TRANSPORT),
    Mutation("Transport", "a turn sends any number of trailers", SEND_QUEUE, "                most_bytes -= _HEAD_BYTES\n", "", TRANSPORT),
    Mutation("Transport", "SETTINGS may come without end", FRAMES, "self._count_idle(_SETTINGS)", "pass", TRANSPORT),
    Mutation("Transport", "PINGs may come without end", FRAMES, "                self._count_idle(1)", "                pass", TRANSPORT),
    Mutation("Transport", "clients that cancel much are cut off", FRAMES, "frozenset((HeadersFrame, RstStreamFrame, WindowUpdateFrame))", "frozenset((HeadersFrame, WindowUpdateFrame))", TRANSPORT),
    Mutation("Transport", "frames that bring nothing add up for ever", FRAMES, "            self._idle, self._idle_since = 0, now", "            pass", TRANSPORT),
    Mutation("Transport", "HPACK is not told that there is no table", HTTP2, "self._size_update = _NO_TABLE", 'self._size_update = b""', TRANSPORT),
    Mutation("Transport", "a long header field is written with a short length", HTTP2, "encode_integer(len(value), 7)", "bytes([len(value) & 127])", TRANSPORT),
    Mutation("Transport", "a unary call's message is uncompressed before the request has ended", INCOMING, "while not self.has_ended and len(self._messages) <= 1:", "while not self.has_ended and len(self._messages) < 1:", TRANSPORT),
    Mutation("Transport", "large messages are uncompressed on the loop", INCOMING, "if len(message.body) < _LARGE_BYTES:", "if True:", TRANSPORT),
    Mutation("Transport", "a request may stay away for ever", INCOMING, "async with asyncio.timeout(SILENCE_S):", "async with asyncio.timeout(None):", TRANSPORT),
    Mutation("Transport", "DATA without bytes is news of a request", INCOMING, "        if data:\n", "        if True:\n", TRANSPORT),
    Mutation("Keys", "who has no key is refused only once the request is there", "service/rpc/auth.py", "grpc.stream_unary_rpc_method_handler(", "grpc.unary_unary_rpc_method_handler(", TRANSPORT),
    Mutation("Keys", "who has no key is refused a stream only once the request is there", "service/rpc/auth.py", "grpc.stream_stream_rpc_method_handler(", "grpc.unary_stream_rpc_method_handler(", TRANSPORT),
    Mutation("Transport", "one connection may have every call", "service/transport/server.py", "elif others >= self._max_calls_of_connection:", "elif False:", TRANSPORT),
    Mutation("Transport", "a busy server answers no health check", "service/transport/server.py", "if others == 0 and method in self._always_admitted:", "if False:", TRANSPORT),
    Mutation("Transport", "any number of health checks is admitted", "service/transport/server.py", "if others == 0 and method in self._always_admitted:", "if method in self._always_admitted:", TRANSPORT),
    Mutation("Transport", "a content-length ends the connection", HTTP2, "    def _initialize_content_length(", "    def _do_not_initialize_content_length(", TRANSPORT),
    Mutation("Transport", "trailers that do not end a request end the connection", HTTP2, "        except StreamClosedError:\n            raise\n        except ProtocolError:\n", "        except ZeroDivisionError:\n", TRANSPORT),
    Mutation("Transport", "priorities end the connection", HTTP2, "    def _receive_priority_frame(", "    def _do_not_receive_priority_frame(", TRANSPORT),
    Mutation("Transport", "alternative services are looked at", HTTP2, "    def _receive_alt_svc_frame(", "    def _do_not_receive_alt_svc_frame(", TRANSPORT),
]  # fmt: skip


def failing_tests(mutation: Mutation) -> list[str]:
    """The tests that fail with the mutation in place."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv", ".build", "node_modules", ".hypothesis", "*_cache")
        shutil.copytree(ROOT, copy, ignore=ignored)
        # Envoy's place.
        (copy / ".venv").symlink_to(ROOT / ".venv")
        path = copy / mutation.file
        path.write_text(path.read_text().replace(mutation.old, mutation.new))
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
        command += [*LIMITS, *mutation.tests]
        # A group of its own, so that nothing which the tests have started outlives them.
        with subprocess.Popen(
            command,
            cwd=copy,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        ) as running:
            try:
                output, _ = running.communicate(timeout=MOST_S)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                return [f"(they do not end within {MOST_S} s)"]
        return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)


def main() -> int:
    """Print the log."""
    for mutation in MUTATIONS:
        places = (ROOT / mutation.file).read_text().count(mutation.old)
        assert places == 1, f"{mutation.what}: {places} places"
    print(f"# Mutation log\n\n{__doc__}\n| Rule | Broken so that | Tests that fail |\n|---|---|---|")
    unnoticed = 0
    with ThreadPoolExecutor(2) as pool:
        for mutation, tests in zip(MUTATIONS, pool.map(failing_tests, MUTATIONS), strict=True):
            names = [test.rpartition("/")[2].replace("|", "\\|") for test in tests[:SHOWN]]
            shown = "<br>".join(f"`{name}`" for name in names)
            more = "<br>and more" if len(tests) > SHOWN else ""
            print(f"| {mutation.rule} | {mutation.what} | {shown or 'NONE'}{more} |", flush=True)
            unnoticed += not tests
    print(f"\n{len(MUTATIONS)} mutations, {unnoticed} unnoticed.")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
