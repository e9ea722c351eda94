"""Listing directories and reading small files without the interpreter, for `bulk_reads`."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef extern from "Python.h":
    object PyUnicode_DecodeFSDefaultAndSize(const char *, Py_ssize_t)

cdef extern from *:
    """
    #include <dirent.h> /* d_type: Python.h asks for all of the C library */
    #include <errno.h>
    #include <fcntl.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <unistd.h>

    #define FILE_BYTES_MAX (64 << 10)
    #define UNKNOWN UINT32_MAX

    /* Octets of all answers, one after the other. */
    typedef struct {
        char *octets;
        size_t used, room;
    } arena;

    /* Room for some more octets; NULL if there is no memory. */
    static char *room_for(arena *all, size_t count)
    {
        if (all->used + count > all->room) {
            size_t room = 2 * (all->used + count) + 4096;
            char *octets = realloc(all->octets, room);

            if (!octets)
                return NULL;
            all->octets = octets;
            all->room = room;
        }
        return all->octets + all->used;
    }

    static int put_number(arena *all, uint32_t number)
    {
        char *at = room_for(all, sizeof number);

        if (!at)
            return 0;
        memcpy(at, &number, sizeof number);
        all->used += sizeof number;
        return 1;
    }

    /* 1 for a directory, 0 for anything else, also for a link to one; -1 if that is not known. */
    static int is_directory(DIR *listing, const struct dirent *entry)
    {
        struct stat status;

        if (entry->d_type != DT_UNKNOWN)
            return entry->d_type == DT_DIR;
        if (fstatat(dirfd(listing), entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
            return -1;
        return S_ISDIR(status.st_mode);
    }

    /* The number of names, then of each its length, whether it is a directory, and its octets.
       Returns 0 if there is no memory. */
    static int list_names(const char *path, arena *all)
    {
        size_t begin = all->used, length;
        uint32_t count = 0;
        DIR *listing = opendir(path);
        struct dirent *entry;
        int kind = 0;
        char *at;

        if (!put_number(all, UNKNOWN)) {
            if (listing)
                closedir(listing);
            return 0;
        }
        if (!listing)
            return 1;
        while (errno = 0, (entry = readdir(listing))) {
            const char *name = entry->d_name;

            if (!strcmp(name, ".") || !strcmp(name, ".."))
                continue;
            length = strlen(name);
            if ((kind = is_directory(listing, entry)) < 0)
                break;
            if (!put_number(all, length << 1 | kind) || !(at = room_for(all, length))) {
                closedir(listing);
                return 0;
            }
            memcpy(at, name, length);
            all->used += length;
            count++;
        }
        if (errno || kind < 0)
            all->used = begin + sizeof count; /* not all of them: whoever wants them asks again */
        else
            memcpy(all->octets + begin, &count, sizeof count);
        closedir(listing);
        return 1;
    }

    /* The number of octets, then these. Returns 0 if there is no memory. */
    static int read_small(const char *path, arena *all)
    {
        size_t begin = all->used;
        int file = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
        struct stat status;
        uint32_t size;
        char *at;

        if (!put_number(all, UNKNOWN)) {
            if (file >= 0)
                close(file);
            return 0;
        }
        if (file < 0)
            return 1;
        if (!fstat(file, &status) && S_ISREG(status.st_mode) && status.st_size <= FILE_BYTES_MAX) {
            size = status.st_size;
            if (!(at = room_for(all, size))) {
                close(file);
                return 0;
            }
            if (pread(file, at, size, 0) == size) {
                memcpy(all->octets + begin, &size, sizeof size);
                all->used += size;
            }
        }
        close(file);
        return 1;
    }
    """
    uint32_t UNKNOWN

    ctypedef struct arena:
        char *octets
        size_t used, room

    int list_names(const char *, arena *) noexcept nogil
    int read_small(const char *, arena *) noexcept nogil


ctypedef int (*answer_of)(const char *, arena *) noexcept nogil


cdef uint32_t number_at(const char *octets) noexcept:
    cdef uint32_t number
    memcpy(&number, octets, sizeof(number))
    return number


cdef int ask(list paths, answer_of answer, arena *all) except -1:
    """Add the answers for some paths to the arena, without the interpreter."""
    cdef Py_ssize_t at, count = len(paths)
    cdef const char **names = <const char **>malloc((count + 1) * sizeof(char *))
    cdef int has_room = 1
    cdef bytes path
    if names == NULL:
        raise MemoryError
    try:
        for at in range(count):
            path = paths[at]
            names[at] = path
        with nogil:
            for at in range(count):
                has_room = answer(names[at], all)
                if not has_room:
                    break
    finally:
        free(names)
    if not has_room:
        raise MemoryError
    return 0


def list_directories(list paths):
    """Return of each directory its names, each with whether it is a directory; None: ask again."""
    cdef arena all = arena(NULL, 0, 0)
    cdef uint32_t count, number
    cdef char *at
    cdef list found = [], names
    try:
        ask(paths, list_names, &all)
        at = all.octets
        for _ in range(len(paths)):
            count = number_at(at)
            at += sizeof(uint32_t)
            if count == UNKNOWN:
                found.append(None)
                continue
            names = []
            for _ in range(count):
                number = number_at(at)
                at += sizeof(uint32_t)
                name = PyUnicode_DecodeFSDefaultAndSize(at, number >> 1)
                names.append((name, (number & 1) != 0))
                at += number >> 1
            found.append(names)
    finally:
        free(all.octets)
    return found


def read_files(list paths):
    """Return the octets of each file; None: it is not small, or not there: ask again."""
    cdef arena all = arena(NULL, 0, 0)
    cdef uint32_t count
    cdef char *at
    cdef list found = []
    try:
        ask(paths, read_small, &all)
        at = all.octets
        for _ in range(len(paths)):
            count = number_at(at)
            at += sizeof(uint32_t)
            if count == UNKNOWN:
                found.append(None)
            else:
                found.append(PyBytes_FromStringAndSize(at, count))
                at += count
    finally:
        free(all.octets)
    return found
