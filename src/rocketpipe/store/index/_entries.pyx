# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``index.entries``.

Every length is compared with what is there before it is used. What is at all unusual, and whatever
has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from rocketpipe.record._raw cimport *
from rocketpipe.store.index._hashes cimport add_hashes, hash_text

TWINS = ("key_hashes", "chain_entries")
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef enum:
    ENTRY_BYTES = 20


def key_hashes(str topic not None, bytes properties not None, bint tags=False):
    cdef list hashes = []
    if not add_hashes(hashes, 31 * hash_text(0, topic) + 35, properties, tags):
        return pure["key_hashes"](topic, properties, tags)
    return hashes


def chain_entries(
    table, count, begin_ms, list keys not None, Py_ssize_t page_slots, set dirty not None
):
    cdef Py_buffer view
    cdef int64_t first = 0, begin = 0
    if page_slots < 1 or not fits_int(count, &first) or not fits_long(begin_ms, &begin):
        return pure["chain_entries"](table, count, begin_ms, keys, page_slots, dirty)
    PyObject_GetBuffer(table, &view, PyBUF_WRITABLE)
    try:
        found = None
        if getattr(table, "typecode", None) == "i" and sizeof(int) == 4 and view.len >= 4:
            found = chain(<int32_t *>view.buf, view.len // 4, first, begin, keys, page_slots, dirty)
    finally:
        PyBuffer_Release(&view)
    if found is None:
        return pure["chain_entries"](table, count, begin_ms, keys, page_slots, dirty)
    return found


cdef object chain(
    int32_t *table, Py_ssize_t slots, int64_t count, int64_t begin, list keys,
    Py_ssize_t page_slots, set dirty,
):
    """Do what ``chain_entries`` promises; None, and nothing done, if a key is unusual."""
    cdef Py_ssize_t number, many = len(keys), page, last_page = -1
    cdef int64_t hash_of = 0, offset = 0, stored = 0, seconds
    cdef Py_ssize_t slot, used = 0
    cdef uint8_t *to
    for key in keys:
        if (
            type(key) is not tuple
            or PyTuple_GET_SIZE(key) != 3
            or not fits(<object>PyTuple_GET_ITEM(key, 0), 0, 0x7FFFFFFF, &hash_of)
            or not fits_long(<object>PyTuple_GET_ITEM(key, 1), &offset)
            or not fits_place(<object>PyTuple_GET_ITEM(key, 2), &stored)
        ):
            return None
    if count + many > 0x7FFFFFFF or begin < -(<int64_t>1 << 62):
        return None
    entries = PyBytes_FromStringAndSize(NULL, many * ENTRY_BYTES)
    to = <uint8_t *>PyBytes_AS_STRING(entries)
    for number in range(many):
        key = keys[number]
        fits_long(<object>PyTuple_GET_ITEM(key, 0), &hash_of)
        fits_long(<object>PyTuple_GET_ITEM(key, 1), &offset)
        fits_long(<object>PyTuple_GET_ITEM(key, 2), &stored)
        seconds = 0
        if begin > 0 and stored > begin:
            seconds = min((stored - begin) // 1000, <int64_t>0x7FFFFFFF)
        slot = hash_of % slots
        put32(to, <uint32_t>hash_of)
        put64(to + 4, <uint64_t>offset)
        put32(to + 12, <uint32_t>seconds)
        put32(to + 16, <uint32_t>table[slot])
        to += ENTRY_BYTES
        if not table[slot]:
            used += 1
        table[slot] = <int32_t>(count + number)
        page = slot // page_slots
        if page != last_page:
            dirty.add(page)
            last_page = page
    return entries, used
