"""The server's side of one HTTP/2 connection (RFC 9113), without a socket.

    feed     bytes of the peer → calls of its ``Receiver``
    write    what the receiver has to say → frames, as far as the peer's windows let them

A peer has to keep the rules: who breaks one ends its connection by an ``Http2Fault``. What it may
make us do for nothing is bounded: headers by their bytes and their frames, streams by their number,
resets, pings, settings and empty frames by how many there are in a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rocketpipe.proxy.http2 import frames
from rocketpipe.proxy.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEAD_BYTES,
    HEADERS,
    MAX_FRAME,
    MAX_WINDOW,
    PADDED,
    USUAL_WINDOW,
    WITH_PRIORITY,
    ErrorCode,
    Http2Fault,
)
from rocketpipe.proxy.http2.hpack import HeaderReader
from rocketpipe.proxy.http2.idle_frames import IdleFrames
from rocketpipe.proxy.http2.receiver import Http2Limits, Receiver, Unread
from rocketpipe.proxy.http2.stream import Stream

#: What a peer may send before we answer for any of it: it is taken at once.
_WINDOW: Final = 1 << 20
#: One block of headers, as bytes and as frames.
MAX_BLOCK: Final = 64 * 1024
MAX_CONTINUATIONS: Final = 8


class Connection:
    """Frames of one peer, and of us to it."""

    def __init__(
        self,
        receiver: Receiver,
        send: Callable[[bytes], None],
        now_s: Callable[[], float],
        unread: Unread,
        limits: Http2Limits | None = None,
    ) -> None:
        """``send`` is given what is to be written; ``now_s`` is asked now and then."""
        self._receiver = receiver
        self._send = send
        self._unread = unread
        self._limits = limits or Http2Limits()
        self._headers = HeaderReader(self._limits.header_bytes)
        self._rest = b""
        self.streams: dict[int, Stream] = {}
        self._last = 0
        #: A block of headers of which more frames come: its stream, flags and bytes.
        self._block: tuple[int, int, bytearray] | None = None
        self._continuations = 0
        self._settled = False
        #: What the peer may send, and what it sent since it was last told.
        self._allowed = USUAL_WINDOW
        self._credit = 0
        #: What we may send; and whether the transport takes it now.
        self._window = USUAL_WINDOW
        self._initial_window = USUAL_WINDOW
        self._is_paused = False
        #: In the order in which they began to wait.
        self.waiting: dict[Stream, None] = {}
        self._leaves = False
        self._idle = IdleFrames(now_s)
        self._handlers: dict[int, Callable[[int, int, bytes], None]] = {
            DATA: self._data,
            HEADERS: self._headers_frame,
            frames.PRIORITY: self._nothing,
            frames.RESET: self._reset,
            frames.SETTINGS: self._settings,
            frames.PING: self._ping,
            frames.GOAWAY: self._nothing,
            frames.WINDOW: self._window_update,
            CONTINUATION: self._continuation,
            frames.PUSH: self._push,
        }

    def begin(self) -> None:
        """Say what this side is like."""
        streams, headers = self._limits.streams, self._limits.header_bytes
        said = {frames.MAX_STREAMS: streams, frames.MAX_HEADERS: headers}
        self._send(frames.settings(said) + frames.window(0, _WINDOW - USUAL_WINDOW))
        self._allowed = _WINDOW

    # What comes

    def feed(self, data: bytes) -> None:
        """Take bytes of the peer, behind its preface.

        Raises:
            Http2Fault: It broke a rule. Nothing else may be fed.
        """
        if self._rest:
            data = self._rest + data
        at, size = 0, len(data)
        handlers = self._handlers
        while size - at >= HEAD_BYTES:
            high, low, kind, flags, number = HEAD.unpack_from(data, at)
            length = high << 8 | low
            if length > MAX_FRAME:
                raise Http2Fault(ErrorCode.FRAME_SIZE, f"a frame of {length} bytes")
            end = at + HEAD_BYTES + length
            if end > size:
                break
            payload = data[at + HEAD_BYTES : end]
            at = end
            if not self._settled:
                if kind != frames.SETTINGS or flags & ACK:
                    raise Http2Fault(ErrorCode.PROTOCOL, "settings come first")
                self._settled = True
            if self._block is not None and kind != CONTINUATION:
                raise Http2Fault(ErrorCode.PROTOCOL, "headers that were not ended")
            handlers.get(kind, self._nothing)(flags, number & MAX_WINDOW, payload)
        self._rest = data[at:] if at else data

    # What goes

    def allow(self, stream: Stream, size: int) -> None:
        """Let the peer have so many bytes under way on a stream, if it may not have them yet."""
        more = min(size, MAX_WINDOW) - stream.allowed
        if more > 0 and not stream.ends and not stream.is_over:
            stream.allowed += more
            self._send(frames.window(stream.number, more))

    def head(self, stream: Stream, block: bytes) -> None:
        """Begin an answer."""
        if not stream.is_over:
            self._send(frames.frame(HEADERS, END_HEADERS, stream.number, block))

    def write(self, stream: Stream, data: bytes) -> bool:
        """Say more; False if it waits for the peer, which the receiver will be told of."""
        if stream.is_over:
            return True
        size = len(data)
        self._idle.sent_data()
        if (
            size <= stream.window
            and size <= self._window
            and size <= MAX_FRAME
            and not stream.unsent
            and not self._is_paused
        ):
            stream.window -= size
            self._window -= size
            stream.sent += size
            self._send(HEAD.pack(size >> 8, size & 255, DATA, 0, stream.number) + data)
            return True
        if stream.unsent:
            data = bytes(stream.unsent) + data
        stream.unsent = memoryview(data)
        self._unread.bytes += size
        is_new = stream not in self.waiting
        self.waiting[stream] = None
        if self._pump(stream):
            return True
        if is_new:
            stream.seen = stream.sent
            self._receiver.blocked(stream)
        return False

    def answer(self, stream: Stream, head: bytes, data: bytes, last: bytes) -> None:
        """Say all at once: the headers, the data and the headers that end it."""
        size = len(data)
        if (
            not stream.ends
            or size > stream.window
            or size > self._window
            or size > MAX_FRAME
            or self._is_paused
            or stream.is_over
        ):
            self.head(stream, head)
            self.write(stream, data)
            self.finish(stream, last)
            return
        number = stream.number
        self._idle.sent_data()
        self._window -= size
        self._send(
            frames.frame(HEADERS, END_HEADERS, number, head)
            + HEAD.pack(size >> 8, size & 255, DATA, 0, number)
            + data
            + frames.frame(HEADERS, END_HEADERS | END_STREAM, number, last)
        )
        stream.is_over = True
        del self.streams[number]

    def finish(self, stream: Stream, block: bytes) -> None:
        """End an answer by its last headers, behind all that was written."""
        if stream.is_over:
            return
        if stream.unsent:
            stream.last = block
            return
        self._end(stream, block)

    def reset(self, stream: Stream, code: ErrorCode) -> None:
        """End a stream at once."""
        if not stream.is_over:
            self._send(frames.reset(stream.number, code))
            self._forget(stream)

    def pause(self) -> None:
        """The transport takes no more for now."""
        self._is_paused = True

    def resume(self) -> None:
        """The transport takes more."""
        self._is_paused = False
        self._pump_all()

    def leave(self, code: ErrorCode = ErrorCode.NO_ERROR, text: str = "") -> None:
        """Say that no more streams are served."""
        if not self._leaves or code is not ErrorCode.NO_ERROR:
            self._leaves = True
            self._send(frames.goaway(self._last, code, text))

    def ping(self) -> None:
        """Ask whether the peer is there."""
        self._send(frames.frame(frames.PING, 0, 0, bytes(8)))

    def close(self) -> None:
        """Forget everything: the connection is gone."""
        for stream in list(self.streams.values()):
            self._forget(stream)
            self._receiver.gone(stream, "the connection is gone")

    # One frame each

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._allowed -= size
        self._credit += size
        if self._allowed < 0:
            raise Http2Fault(ErrorCode.FLOW_CONTROL, "more data than was allowed")
        if self._credit > _WINDOW // 2:
            self._send(frames.window(0, self._credit))
            self._allowed += self._credit
            self._credit = 0
        stream = self.streams.get(number)
        if stream is None or stream.ends:
            self._of_the_past(number)
            return
        stream.allowed -= size
        if stream.allowed < 0:
            raise Http2Fault(ErrorCode.FLOW_CONTROL, "more data than its stream was allowed")
        if flags & PADDED:
            payload = frames.unpadded(payload)
        if payload:
            stream.body += payload
        elif not flags & END_STREAM:
            self._idle.count("empty frames")
        if flags & END_STREAM:
            stream.ends = True
        self._receiver.grew(stream)

    def _headers_frame(self, flags: int, number: int, payload: bytes) -> None:
        if not number & 1:
            raise Http2Fault(ErrorCode.PROTOCOL, f"a client's stream {number}")
        if flags & PADDED:
            payload = frames.unpadded(payload)
        if flags & WITH_PRIORITY:
            if len(payload) < 5:
                raise Http2Fault(ErrorCode.FRAME_SIZE, "a priority that is cut")
            payload = payload[5:]
        if flags & END_HEADERS:
            self._opened(number, flags, payload)
        else:
            self._continuations = 0
            self._block = (number, flags, bytearray(payload))

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != number:
            raise Http2Fault(ErrorCode.PROTOCOL, "headers go on that did not begin")
        _, first, block = self._block
        block += payload
        self._continuations += 1
        if len(block) > MAX_BLOCK or self._continuations > MAX_CONTINUATIONS:
            raise Http2Fault(ErrorCode.ENHANCE_YOUR_CALM, "headers without end")
        if flags & END_HEADERS:
            self._block = None
            self._opened(number, first, bytes(block))

    def _opened(self, number: int, flags: int, block: bytes) -> None:
        headers = self._headers.read(block)
        if number <= self._last:
            stream = self.streams.get(number)
            if stream is None or stream.ends:
                self._of_the_past(number)
            elif not flags & END_STREAM:
                raise Http2Fault(ErrorCode.PROTOCOL, "headers twice")
            else:  # what comes behind a body: nobody asks for it
                stream.ends = True
                self._receiver.grew(stream)
            return
        self._last = number
        if self._leaves or len(self.streams) >= self._limits.streams:
            self._idle.count("streams")
            self._send(frames.reset(number, ErrorCode.REFUSED_STREAM))
            return
        stream = Stream(number, headers, self._headers.size, self._initial_window)
        stream.ends = bool(flags & END_STREAM)
        self.streams[number] = stream
        self._receiver.began(stream)

    def _reset(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Fault(ErrorCode.FRAME_SIZE, "a reset of another length")
        self._idle.count("resets")
        stream = self.streams.get(number)
        if stream is None:
            self._of_the_past(number)
            return
        self._forget(stream)
        self._receiver.gone(stream, "the client gave it up")

    def _settings(self, flags: int, number: int, payload: bytes) -> None:
        is_whole = not (payload if flags & ACK else len(payload) % 6)
        frames.check_of_connection("settings", number, is_whole)
        if flags & ACK:
            return
        self._idle.count_measuring("settings")
        for name, value in frames.SETTING.iter_unpack(payload):
            if name == frames.INITIAL_WINDOW:
                self._initial(value)
            elif name == frames.FRAME_SIZE and not MAX_FRAME <= value < 1 << 24:
                raise Http2Fault(ErrorCode.PROTOCOL, f"frames of {value} bytes")
        self._send(frames.frame(frames.SETTINGS, ACK, 0))
        self._pump_all()

    def _initial(self, value: int) -> None:
        if value > MAX_WINDOW:
            raise Http2Fault(ErrorCode.FLOW_CONTROL, f"a window of {value} bytes")
        more = value - self._initial_window
        self._initial_window = value
        for stream in self.streams.values():
            stream.window += more
            if stream.window > MAX_WINDOW:
                raise Http2Fault(ErrorCode.FLOW_CONTROL, "a window that is too large")

    def _ping(self, flags: int, number: int, payload: bytes) -> None:
        frames.check_of_connection("a ping", number, len(payload) == 8)
        if flags & ACK:
            self._receiver.ponged()
            return
        self._idle.count_measuring("pings")
        self._send(frames.frame(frames.PING, ACK, 0, payload))

    def _window_update(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Fault(ErrorCode.FRAME_SIZE, "a window of another length")
        more = frames.NUMBER.unpack(payload)[0] & MAX_WINDOW
        if not more:
            raise Http2Fault(ErrorCode.PROTOCOL, "a window that does not grow")
        if not number:
            self._window += more
            if self._window > MAX_WINDOW:
                raise Http2Fault(ErrorCode.FLOW_CONTROL, "a window that is too large")
            self._pump_all()
            return
        stream = self.streams.get(number)
        if stream is None:
            if number > self._last:
                raise Http2Fault(ErrorCode.PROTOCOL, f"stream {number} did not begin")
            return
        stream.window += more
        if stream.window > MAX_WINDOW:
            raise Http2Fault(ErrorCode.FLOW_CONTROL, "a window that is too large")
        if stream.unsent:
            self._pump(stream)

    def _push(self, flags: int, number: int, payload: bytes) -> None:
        raise Http2Fault(ErrorCode.PROTOCOL, "clients push nothing")

    def _nothing(self, flags: int, number: int, payload: bytes) -> None:
        """What means nothing here: priorities, goodbyes, kinds that nobody knows."""
        self._idle.count("frames that mean nothing")

    # Inside

    def _of_the_past(self, number: int) -> None:
        """Let what was under way when a stream ended be, but not what never began."""
        if number > self._last or not number & 1:
            raise Http2Fault(ErrorCode.PROTOCOL, f"stream {number} did not begin")
        self._idle.count("frames of streams that ended")

    def _pump_all(self) -> None:
        for stream in list(self.waiting):
            if self._window <= 0 or self._is_paused:
                return
            self._pump(stream)

    def _pump(self, stream: Stream) -> bool:
        """Send what the windows let; True if that was all."""
        left = stream.unsent
        at, size = 0, len(left)
        while at < size and not self._is_paused:
            more = min(size - at, stream.window, self._window, MAX_FRAME)
            if more <= 0:
                break
            self._send(
                HEAD.pack(more >> 8, more & 255, DATA, 0, stream.number) + left[at : at + more]
            )
            at += more
            stream.window -= more
            self._window -= more
        stream.sent += at
        self._unread.bytes -= at
        stream.unsent = left[at:]
        if at < size:
            return False
        stream.unsent = b""
        del self.waiting[stream]
        if stream.last is not None:
            self._end(stream, stream.last)
        else:
            self._receiver.taken(stream)
        return True

    def _end(self, stream: Stream, block: bytes) -> None:
        last = frames.frame(HEADERS, END_HEADERS | END_STREAM, stream.number, block)
        if not stream.ends:  # it need not say more
            last += frames.reset(stream.number, ErrorCode.NO_ERROR)
        self._send(last)
        self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        stream.is_over = True
        self.streams.pop(stream.number, None)
        if stream in self.waiting:
            del self.waiting[stream]
            self._unread.bytes -= len(stream.unsent)
            stream.unsent = b""
