"""Reading files into the page cache without the interpreter, for `appendlog.files.read_ahead`.

Nothing that was read is looked at, and no error matters: whoever needs a file reads it again.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

cdef extern from *:
    """
    #include <dirent.h> /* d_type: Python.h asks for all of the C library */
    #include <fcntl.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <unistd.h>

    #define HEAD_BYTES 4096
    #define FOOT_BYTES 4096
    /* What a start verifies before the end of the last segment, and its footer. */
    #define LAST_BYTES (68 * 1024)
    #define NAME_BYTES 256
    #define DEPTH_MAX 3

    static int ends_with(const char *name, const char *suffix)
    {
        size_t length = strlen(name), end = strlen(suffix);

        return length > end && !strcmp(name + length - end, suffix);
    }

    /* The first octets of an open file and the last `foot`; returns how many were read. */
    static long long read_ends(int file, long long size, long long foot, char *buffer)
    {
        long long octets = 0, at;
        ssize_t count;

        if ((count = pread(file, buffer, HEAD_BYTES, 0)) > 0)
            octets += count;
        if (size > HEAD_BYTES) {
            at = size - foot > HEAD_BYTES ? size - foot : HEAD_BYTES;
            if ((count = pread(file, buffer, size - at, at)) > 0)
                octets += count;
        }
        return octets;
    }

    static long long read_named(int parent, const char *name, long long foot, char *buffer, int depth);

    /* The files in an open directory; closes it. Of indexes, only that of the last segment.

       The last segment is the one with the greatest name, so a name waits for a greater one. */
    static long long read_directory(int directory, char *buffer, int depth)
    {
        DIR *listing = fdopendir(directory);
        struct dirent *entry;
        char last[NAME_BYTES] = "";
        long long octets = 0;

        if (!listing) {
            close(directory);
            return 0;
        }
        while ((entry = readdir(listing))) {
            const char *name = entry->d_name;

            /* Not even opened: a device may do something then. */
            if (entry->d_type != DT_REG && entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)
                continue;
            if (name[0] == '.' || ends_with(name, ".index") || strlen(name) >= NAME_BYTES)
                continue;
            if (ends_with(name, ".log") && strcmp(name, last) > 0) {
                if (last[0])
                    octets += read_named(directory, last, FOOT_BYTES, buffer, depth + 1);
                strcpy(last, name);
            } else
                octets += read_named(directory, name, FOOT_BYTES, buffer, depth + 1);
        }
        if (last[0]) {
            octets += read_named(directory, last, LAST_BYTES, buffer, depth + 1);
            if (strlen(last) + 2 < NAME_BYTES) {
                strcpy(strrchr(last, '.'), ".index");
                octets += read_named(directory, last, FOOT_BYTES, buffer, depth + 1);
            }
        }
        closedir(listing);
        return octets;
    }

    /* A file, or the files in a directory. Nothing else is opened for long: no pipe, no link. */
    static long long read_named(int parent, const char *name, long long foot, char *buffer, int depth)
    {
        struct stat status;
        long long octets = 0;
        int file;

        if (depth > DEPTH_MAX)
            return 0;
        file = openat(parent, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
        if (file < 0)
            return 0;
        if (!fstat(file, &status)) {
            if (S_ISDIR(status.st_mode))
                return read_directory(file, buffer, depth);
            if (S_ISREG(status.st_mode))
                octets = read_ends(file, status.st_size, foot, buffer);
        }
        close(file);
        return octets;
    }
    """
    enum:
        AT_FDCWD
        FOOT_BYTES
        LAST_BYTES

    int64_t read_named(int, const char *, long long, char *, int) nogil


def read_ahead(list paths):
    """Read the files at some paths, and in the directories among them; return how many octets."""
    cdef Py_ssize_t at, count = len(paths)
    cdef const char **names = <const char **>malloc((count + 1) * sizeof(char *))
    cdef char *buffer = <char *>malloc(LAST_BYTES)
    cdef int64_t octets = 0
    cdef bytes path
    try:
        if names == NULL or buffer == NULL:
            raise MemoryError
        for at in range(count):
            path = paths[at]
            names[at] = path
        with nogil:
            for at in range(count):
                octets += read_named(AT_FDCWD, names[at], FOOT_BYTES, buffer, 0)
    finally:
        free(names)
        free(buffer)
    return octets
