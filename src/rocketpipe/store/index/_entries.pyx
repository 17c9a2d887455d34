# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, binding=False
"""The compiled twin of ``index.entries``.

Every length is compared with what is there before it is used. What is at all unusual, and whatever
has to raise, is left to the function in Python, found in ``pure``.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from rocketpipe.record._raw cimport *
from rocketpipe.store.index._hashes cimport add_hashes, hash_text

TWINS = ("key_hashes", "chain_entries")
MADE_FROM = ROCKETPIPE_SOURCE.decode()
#: The functions that these stand for, by name.
pure = {}

prepare_crc32()

cdef enum:
    ENTRY_BYTES = 20
    KEY_BYTES = 20

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define RP_PREFETCH(place) __builtin_prefetch(place, 1)
    #else
    #define RP_PREFETCH(place) ((void)(place))
    #endif
    """
    void prefetch "RP_PREFETCH"(const void *place) noexcept


def key_hashes(str topic not None, bytes properties not None, bint tags=False):
    cdef list hashes = []
    if not add_hashes(hashes, 31 * hash_text(0, topic) + 35, properties, tags):
        return pure["key_hashes"](topic, properties, tags)
    return hashes


def chain_entries(
    table, count, begin_ms, bytes keys not None, Py_ssize_t page_slots, bytearray dirty not None
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
    int32_t *table, Py_ssize_t slots, int64_t count, int64_t begin, bytes keys,
    Py_ssize_t page_slots, bytearray dirty,
):
    """Do what ``chain_entries`` promises; None, and nothing done, if a key is unusual."""
    cdef const uint8_t *key = raw(keys)
    cdef const uint8_t *end = key + PyBytes_GET_SIZE(keys)
    cdef uint8_t *pages = <uint8_t *>PyByteArray_AS_STRING(dirty)
    cdef int64_t stored, seconds
    cdef uint32_t number
    cdef Py_ssize_t slot, used = 0
    cdef uint8_t *to
    if (
        PyBytes_GET_SIZE(keys) % KEY_BYTES
        or PyByteArray_GET_SIZE(dirty) < (slots + page_slots - 1) // page_slots
        or count + PyBytes_GET_SIZE(keys) // KEY_BYTES > 0x7FFFFFFF
        or begin < -(<int64_t>1 << 62)
    ):
        return None
    while key < end:
        if get32(key) > 0x7FFFFFFF or get64(key + 12) > <uint64_t>1 << 62:
            return None
        # Slots lie all over the table: they are on their way while the next ones are looked up.
        prefetch(table + get32(key) % slots)
        key += KEY_BYTES
    entries = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(keys) // KEY_BYTES * ENTRY_BYTES)
    to = <uint8_t *>PyBytes_AS_STRING(entries)
    key = raw(keys)
    while key < end:
        number = get32(key)
        stored = <int64_t>get64(key + 12)
        seconds = 0
        if begin > 0 and stored > begin:
            seconds = min((stored - begin) // 1000, <int64_t>0x7FFFFFFF)
        slot = number % slots
        memcpy(to, key, 12)
        put32(to + 12, <uint32_t>seconds)
        put32(to + 16, <uint32_t>table[slot])
        if not table[slot]:
            used += 1
        table[slot] = <int32_t>count
        pages[slot // page_slots] = 1
        count += 1
        key += KEY_BYTES
        to += ENTRY_BYTES
    return entries, used
