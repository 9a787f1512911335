"""uvicorn's protocol, which waits for no peer for ever and keeps no more of a request than it may.

uvicorn bounds neither what comes before a body nor the time that it takes, and an answer that
nobody reads stays in memory for as long as the connection does. A body is bounded by `api.body`.

Whoever offers another protocol (`Upgrade: h2c`, as the HTTP client of Java does unasked) is
answered in this one. The parser takes the offer for accepted and what follows, a body too, for no
HTTP: such a request is read again without it.
"""

import sys
from asyncio import TimerHandle, Transport
from typing import cast
from uuid import uuid4

from httptools import HttpRequestParser
from starlette.types import Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from procession.api.problems import TRACE_ID, answer_to
from procession.engine.errors import HeadersTooLargeError, MalformedRequestError, ProcessionError

MOST = 64 * 1024  # bytes of a request's first line and headers, and between two parts of a body
LONGEST = 1024  # bytes of an address that is told of one too large
PROMPT = 15.0  # seconds for all of the headers, from when nothing else is left to be answered
PATIENCE = 30.0  # seconds in which the peer has to take
LEAST = 16 * 1024  # bytes of what waits for it, or all of that


class PatientProtocol(HttpToolsProtocol):
    """A connection that is closed when its peer keeps it from getting anywhere."""

    _idle: TimerHandle | None = None  # runs while there is nothing to answer
    _unread: TimerHandle | None = None  # runs while the peer has something to take
    _left = 0  # bytes that the peer had not taken when that began
    _unparsed = 0  # bytes that came since the parser last got something out of them
    _is_lost = False  # what comes cannot be told apart any more
    _head = b""  # of a request that offers another protocol, without the offer
    _fed = b""  # what the parser is at
    _again = b""  # what it is to read next

    @override
    def connection_made(self, transport: Transport) -> None:
        super().connection_made(transport)
        self._watch()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._idle = _stopped(self._idle)
        self._unread = _stopped(self._unread)

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._is_lost:
            return
        self._unparsed += len(data)
        self._again = data
        while self._again and not self.transport.is_closing() and not self._is_lost:
            self._fed, self._again = self._again, b""
            super().data_received(self._fed)
        if self._unparsed > MOST and not self.transport.is_closing():
            self._refuse()
        self._watch()

    @override
    def on_headers_complete(self) -> None:
        self._unparsed = 0
        assert self.parser is not None, "it is what calls this"
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._head = self._without_offer(self.parser)
            return
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MOST:
            self.app = _too_large
            self.url = self.url[:LONGEST]
        super().on_headers_complete()

    def _without_offer(self, parser: HttpRequestParser) -> bytes:
        method, version = parser.get_method(), parser.get_http_version().encode()
        lines = [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([b"%s %s HTTP/%s" % (method, self.url, version), *lines, b"", b""])

    @override
    def on_message_complete(self) -> None:
        if not self._head:
            super().on_message_complete()

    @override
    def _unsupported_upgrade_warning(self) -> None:
        """Go on, where the parser has stopped, with the same request."""
        stopped = sys.exc_info()[1]
        if self._head and stopped is not None:
            self._again = self._head + self._fed[stopped.args[0] :]
            self._head = b""
            self.parser = HttpRequestParser(self)  # this one is done where the peer will close
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does

    @override
    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._look_later()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_later()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if not self._answers():
            return  # the rest of a whole answer is still to be taken
        self._unread = _stopped(self._unread)

    def _answers(self) -> bool:
        """Whether a request has come that is not answered yet."""
        cycle = cast("object | None", self.cycle)  # there is none before the first one
        return cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        if self._answers() or self.transport.is_closing():
            self._idle = _stopped(self._idle)
        elif self._idle is None:
            self._idle = self.loop.call_later(PROMPT, self.transport.close)

    @override
    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP. What has come whole before it is answered, and with its own."""
        if self._answers() and not self.cycle.more_body:
            self._is_lost, self.cycle.keep_alive = True, False
        elif self._answers() and (self.pipeline or self.cycle.response_started):
            self.transport.abort()
        else:
            self._tell(MalformedRequestError())

    def _refuse(self) -> None:
        """Answer what has no end. Into an answer that is under way nothing can be said."""
        if self._answers():
            self.transport.abort()
        else:
            self._tell(HeadersTooLargeError())

    def _tell(self, error: ProcessionError) -> None:
        """Answer what has come to no application, and close."""
        answer = answer_to(error, {"path": "", TRACE_ID: uuid4().hex})
        head = b"".join(b"%s: %s\r\n" % header for header in answer.raw_headers)
        self.transport.write(STATUS_LINE[answer.status_code] + head + b"\r\n" + bytes(answer.body))
        self.transport.close()

    def _look_later(self) -> None:
        _stopped(self._unread)
        self._left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(PATIENCE, self._look)

    def _look(self) -> None:
        """Give up on a peer that has taken next to nothing."""
        left = self.transport.get_write_buffer_size()
        if left and left > self._left - LEAST:
            self.transport.abort()
        elif left:
            self._look_later()
        else:
            self._unread = None


def _stopped(timer: TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


async def _too_large(scope: Scope, receive: Receive, send: Send) -> None:
    scope[TRACE_ID] = uuid4().hex
    await answer_to(HeadersTooLargeError(), scope)(scope, receive, send)
