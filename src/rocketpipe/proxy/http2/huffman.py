"""The Huffman code of HPACK (RFC 7541, appendix B), read four bits at a time.

The code is canonical: how long each symbol's code is says what it is.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from rocketpipe.proxy.http2.frames import ErrorCode, Http2Fault

_END: Final = 256
#: Length of the code, and whose it is: characters first, then numbers of those that are none.
_LENGTHS: Final[tuple[tuple[int, str, str], ...]] = (
    (5, "012aceiost", ""),
    (6, " %-./3456789=A_bdfghlmnpru", ""),
    (7, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz", ""),
    (8, "&*,;XZ", ""),
    (10, '!"()?', ""),
    (11, "'+|", ""),
    (12, "#>", ""),
    (13, "$@[]~", "0"),
    (14, "^}", ""),
    (15, "<`{", ""),
    (19, "\\", "195 208"),
    (20, "", "128 130 131 162 184 194 224 226"),
    (21, "", "153 161 167 172 176 177 179 209 216 217 227 229 230"),
    (22, "", "129 132 133 134 136 146 154 156 160 163 164 169 170 173 178 181 185 186 187"),
    (22, "", "189 190 196 198 228 232 233"),
    (23, "", "1 135 137 138 139 140 141 143 147 149 150 151 152 155 157 158 165 166 168 174"),
    (23, "", "175 180 182 183 188 191 197 231 239"),
    (24, "", "9 142 144 145 148 159 171 206 215 225 236 237"),
    (25, "", "199 207 234 235"),
    (26, "", "192 193 200 201 202 205 210 213 218 219 238 240 242 243 255"),
    (27, "", "203 204 211 212 214 221 222 223 241 244 245 246 247 248 250 251 252 253 254"),
    (28, "", "2 3 4 5 6 7 8 11 12 14 15 16 17 18 19 20 21 23 24 25 26 27 28 29 30 31 127"),
    (28, "", "220 249"),
    (30, "", "10 13 22 256"),
)


def decode(coded: bytes) -> bytes:
    """What was encoded.

    Raises:
        Http2Fault: It ends in the middle of a symbol, or has the end in it.
    """
    moves, good = _machine()
    state, found = 0, bytearray()
    for byte in coded:
        for nibble in (byte >> 4, byte & 15):
            state, symbol = moves[state][nibble]
            if symbol >= 0:
                if symbol == _END:
                    raise Http2Fault(ErrorCode.COMPRESSION, "a header with the end inside")
                found.append(symbol)
    if state not in good:
        raise Http2Fault(ErrorCode.COMPRESSION, "a header that ends in the middle of a symbol")
    return bytes(found)


def codes() -> dict[int, tuple[int, int]]:
    """Each symbol's code and its length in bits."""
    found: dict[int, tuple[int, int]] = {}
    code = last = 0
    for bits, characters, numbers in _LENGTHS:
        for symbol in sorted([*map(ord, characters), *map(int, numbers.split())]):
            code <<= bits - last
            last = bits
            found[symbol] = (code, bits)
            code += 1
    return found


@cache
def _machine() -> tuple[list[list[tuple[int, int]]], frozenset[int]]:
    """Where four bits lead from each state, and which symbol they end (-1: none).

    Good to end in are the beginning, and up to seven bits of ones: what fills the last byte.
    """
    children: list[list[int]] = [[0, 0]]
    symbols: dict[tuple[int, int], int] = {}
    for symbol, (code, bits) in codes().items():
        at = 0
        for place in range(bits - 1, 0, -1):
            bit = code >> place & 1
            if not children[at][bit]:
                children[at][bit] = len(children)
                children.append([0, 0])
            at = children[at][bit]
        symbols[at, code & 1] = symbol
    moves = []
    for state in range(len(children)):
        row = []
        for nibble in range(16):
            at, ended = state, -1
            for place in (3, 2, 1, 0):
                bit = nibble >> place & 1
                if (at, bit) in symbols:
                    ended, at = symbols[at, bit], 0
                else:
                    at = children[at][bit]
            row.append((at, ended))
        moves.append(row)
    good, at = [0], 0
    for _ in range(7):
        at = children[at][1]
        good.append(at)
    return moves, frozenset(good)
