"""Reading the files of logs without the interpreter, for `appendlog.recovery.log_images`.

Nothing that was read is checked here. A directory with anything unusual in it has no image: the
recovery reads it itself, file by file, and finds in the page cache what it needs of each.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

cdef extern from *:
    """
    #include <dirent.h>
    #include <errno.h>
    #include <fcntl.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <unistd.h>

    #define NAME_BYTES 64
    #define END_BYTES 1024
    #define ENTRY_BYTES 16
    #define INDEX_BYTES 4096
    #define HEAD_BYTES 4096
    #define FOOT_BYTES 4096
    /* What is verified before the end of the last segment. */
    #define VERIFIED_BYTES (64 << 10)
    /* Behind the chunks that are passed; beyond it there is no image. */
    #define FOOT_BYTES_MAX (640 << 10)
    #define CHUNK_HEADER_BYTES 88
    #define CHUNK_PREFIX_BYTES 12
    /* Of chunks from this size on, the headers lead to those that are to be verified. */
    #define LARGE_BYTES (4 << 10)
    /* A slot of the `end` file. */
    #define SLOT_BYTES 64
    #define SLOT_DISTANCE 512
    #define SLOT_MAGIC "AQLE"
    #define PASSED_MAX 64
    #define PASSED_BYTES (PASSED_MAX * CHUNK_HEADER_BYTES)
    #define BUFFER_BYTES \\
        (END_BYTES + ENTRY_BYTES + INDEX_BYTES + HEAD_BYTES + PASSED_BYTES + FOOT_BYTES_MAX)

    typedef struct {
        char log_name[NAME_BYTES];
        int64_t log_bytes, index_bytes, foot_start, verified_start, read_ahead;
        char *end, *index, *head, *passed, *foot;
        Py_ssize_t end_bytes, index_read, head_bytes, passed_bytes, foot_bytes;
    } log_image;

    static int64_t u32_at(const char *octets)
    {
        const unsigned char *at = (const unsigned char *)octets;

        return at[0] | at[1] << 8 | at[2] << 16 | (int64_t)at[3] << 24;
    }

    static uint64_t u64_at(const char *octets)
    {
        return (uint64_t)u32_at(octets) | (uint64_t)u32_at(octets + 4) << 32;
    }

    static int has_suffix(const char *name, size_t length, const char *suffix)
    {
        size_t size = strlen(suffix);

        return length > size && !memcmp(name + length - size, suffix, size);
    }

    /* Open a regular file; returns -1 for anything else. */
    static int open_regular(int directory, const char *name, int access, int64_t *size)
    {
        int file = openat(directory, name, access | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
        struct stat status;

        if (file < 0)
            return -1;
        if (fstat(file, &status) || !S_ISREG(status.st_mode)) {
            close(file);
            return -1;
        }
        *size = status.st_size;
        return file;
    }

    static int read_whole(int file, char *into, int64_t count, int64_t at)
    {
        return pread(file, into, count, at) == count;
    }

    static int read_end(int directory, log_image *image)
    {
        int64_t size;
        int file = open_regular(directory, "end", O_RDONLY, &size), is_read = 0;

        if (file < 0)
            return 0;
        if (size <= END_BYTES) {
            image->end_bytes = size;
            is_read = read_whole(file, image->end, size, 0);
        }
        close(file);
        return is_read;
    }

    /* The header of the index, and its last entries. */
    static int read_index(int directory, const char *name, log_image *image)
    {
        int file = open_regular(directory, name, O_RDONLY, &image->index_bytes), is_read = 0;
        int64_t rest = image->index_bytes - ENTRY_BYTES;

        if (file < 0)
            return 0;
        if (rest >= 0 && rest % ENTRY_BYTES == 0) {
            if (rest > INDEX_BYTES)
                rest = INDEX_BYTES;
            image->index_read = ENTRY_BYTES + rest;
            is_read = read_whole(file, image->index, ENTRY_BYTES, 0)
                && read_whole(file, image->index + ENTRY_BYTES, rest, image->index_bytes - rest);
        }
        close(file);
        return is_read;
    }

    /* The octets of the log that its `end` file says are on the disk; 0 if it says nothing. */
    static uint64_t durable_bytes(const log_image *image)
    {
        uint64_t newest = 0, bytes = 0;
        Py_ssize_t at;

        for (at = 0; at + SLOT_BYTES <= image->end_bytes; at += SLOT_DISTANCE) {
            const char *slot = image->end + at;

            if (!memcmp(slot, SLOT_MAGIC, 4) && u64_at(slot + 8) >= newest) {
                newest = u64_at(slot + 8);
                bytes = u64_at(slot + 48);
            }
        }
        return bytes;
    }

    /* Where the chunks begin that are to be verified: the last place before them in the index, or
       that of the first chunk. Of a log without others, its very first octet. */
    static int64_t start_of_foot(const log_image *image)
    {
        int64_t from = image->verified_start;
        Py_ssize_t at;

        for (at = image->index_read - ENTRY_BYTES; at >= ENTRY_BYTES; at -= ENTRY_BYTES) {
            int64_t position = u32_at(image->index + at + 4);

            if (position < from)
                return position;
        }
        return from > 0 ? CHUNK_PREFIX_BYTES + u32_at(image->head + 8) : 0;
    }

    /* Go on from the start of the foot over large chunks, and keep their headers. */
    static void pass_chunks(int file, log_image *image)
    {
        int64_t from = image->verified_start, position = image->foot_start, size;
        char *header = image->passed;

        while (position && image->passed_bytes < PASSED_BYTES
               && read_whole(file, header, CHUNK_HEADER_BYTES, position)) {
            size = CHUNK_PREFIX_BYTES + u32_at(header + 8);
            if (size < LARGE_BYTES || position + size > from)
                break;
            position += size;
            header += CHUNK_HEADER_BYTES;
            image->passed_bytes += CHUNK_HEADER_BYTES;
        }
        image->foot_start = position;
    }

    static int read_log(int directory, log_image *image)
    {
        /* As the log opens it later: one that may not be written is refused by its recovery. */
        int file = open_regular(directory, image->log_name, O_RDWR, &image->log_bytes), is_read = 0;
        int64_t size = image->log_bytes;
        uint64_t durable = durable_bytes(image);

        if (file < 0)
            return 0;
        image->verified_start = (durable < (uint64_t)size ? (int64_t)durable : size) - VERIFIED_BYTES;
        /* A disk that reads ahead by itself would read what nobody needs. */
        posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
        image->head_bytes = size < HEAD_BYTES ? size : HEAD_BYTES;
        if (image->head_bytes >= CHUNK_PREFIX_BYTES
            && read_whole(file, image->head, image->head_bytes, 0)) {
            image->foot_start = start_of_foot(image);
            pass_chunks(file, image);
            image->foot_bytes = size - image->foot_start;
            is_read = image->foot_bytes > 0 && image->foot_bytes <= FOOT_BYTES_MAX
                && read_whole(file, image->foot, image->foot_bytes, image->foot_start);
        }
        close(file);
        return is_read;
    }

    /* Take note of the names that a small log has; returns 0 for any other. */
    static int note_names(int directory, log_image *image, char *index_name, int *has_end)
    {
        int copy = fcntl(directory, F_DUPFD_CLOEXEC, 0);
        DIR *listing = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *entry;
        int is_small = 1;

        if (!listing) {
            if (copy >= 0)
                close(copy);
            return 0;
        }
        while (is_small && (errno = 0, (entry = readdir(listing)))) {
            const char *name = entry->d_name;
            size_t length = strlen(name);

            if (!strcmp(name, ".") || !strcmp(name, ".."))
                continue;
            if (!strcmp(name, "end"))
                *has_end = 1;
            else if (length < NAME_BYTES && has_suffix(name, length, ".log") && !*image->log_name)
                strcpy(image->log_name, name);
            else if (length < NAME_BYTES && has_suffix(name, length, ".index") && !*index_name)
                strcpy(index_name, name);
            else
                is_small = 0;
        }
        is_small = is_small && !errno; /* not all names were read */
        closedir(listing);
        return is_small && *image->log_name;
    }

    /* The first octets of a file into the page cache, and the last `foot`; returns how many. */
    static int64_t read_ends(int directory, const char *name, int64_t foot, char *buffer)
    {
        int64_t size, at, octets = 0;
        int file = open_regular(directory, name, O_RDONLY, &size);
        ssize_t count;

        if (file < 0)
            return 0;
        posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
        if ((count = pread(file, buffer, HEAD_BYTES, 0)) > 0)
            octets += count;
        if (size > HEAD_BYTES) {
            at = size - foot > HEAD_BYTES ? size - foot : HEAD_BYTES;
            if ((count = pread(file, buffer, size - at, at)) > 0)
                octets += count;
        }
        close(file);
        return octets;
    }

    /* What a recovery reads of each file of a log. Of indexes, only that of the last segment.

       The last segment is the one with the greatest name, so a name waits for a greater one. */
    static int64_t read_ahead(int directory, char *buffer)
    {
        int copy = fcntl(directory, F_DUPFD_CLOEXEC, 0);
        DIR *listing = copy < 0 ? NULL : fdopendir(copy);
        struct dirent *entry;
        char last[NAME_BYTES] = "";
        int64_t octets = 0;

        if (!listing) {
            if (copy >= 0)
                close(copy);
            return 0;
        }
        rewinddir(listing); /* both descriptors have one place in the directory */
        while ((entry = readdir(listing))) {
            const char *name = entry->d_name;
            size_t length = strlen(name);

            if (name[0] == '.' || length >= NAME_BYTES || has_suffix(name, length, ".index"))
                continue;
            if (has_suffix(name, length, ".log") && strcmp(name, last) > 0) {
                if (last[0])
                    octets += read_ends(directory, last, FOOT_BYTES, buffer);
                strcpy(last, name);
            } else
                octets += read_ends(directory, name, FOOT_BYTES, buffer);
        }
        if (last[0]) {
            octets += read_ends(directory, last, VERIFIED_BYTES + FOOT_BYTES, buffer);
            if (strlen(last) + 2 < NAME_BYTES) {
                strcpy(strrchr(last, '.'), ".index");
                octets += read_ends(directory, last, FOOT_BYTES, buffer);
            }
        }
        closedir(listing);
        return octets;
    }

    /* Returns whether the log has an image. */
    static int read_image(const char *path, log_image *image, char *buffer)
    {
        int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int is_read = 0, has_end = 0;
        char index_name[NAME_BYTES] = "";

        memset(image, 0, sizeof *image);
        image->index_bytes = -1;
        image->end = buffer;
        image->index = image->end + END_BYTES;
        image->head = image->index + ENTRY_BYTES + INDEX_BYTES;
        image->passed = image->head + HEAD_BYTES;
        image->foot = image->passed + PASSED_BYTES;
        if (directory < 0)
            return 0;
        if (note_names(directory, image, index_name, &has_end)) {
            is_read = !has_end || read_end(directory, image);
            if (is_read && *index_name)
                is_read = !memcmp(index_name, image->log_name, strlen(index_name) - 5)
                    && read_index(directory, index_name, image);
            is_read = is_read && read_log(directory, image);
        }
        image->read_ahead = is_read ? 0 : read_ahead(directory, buffer);
        close(directory);
        return is_read;
    }
    """
    enum:
        BUFFER_BYTES

    ctypedef struct log_image:
        char log_name[64]
        int64_t log_bytes, index_bytes, foot_start, verified_start, read_ahead
        char *end
        char *index
        char *head
        char *passed
        char *foot
        Py_ssize_t end_bytes, index_read, head_bytes, passed_bytes, foot_bytes

    int read_image(const char *, log_image *, char *) nogil


def read_images(list paths):
    """Return what is in the files of some logs, of each a tuple.

    Of a log that is not small, the number of octets that are in the page cache now.
    """
    cdef Py_ssize_t at, count = len(paths)
    cdef const char **names = <const char **>malloc((count + 1) * sizeof(char *))
    cdef log_image *images = <log_image *>malloc((count + 1) * sizeof(log_image))
    cdef int *are_read = <int *>malloc((count + 1) * sizeof(int))
    cdef char *buffers = <char *>malloc((count + 1) * <Py_ssize_t>BUFFER_BYTES)
    cdef log_image *image
    cdef bytes path
    cdef list found = []
    try:
        if names == NULL or images == NULL or are_read == NULL or buffers == NULL:
            raise MemoryError
        for at in range(count):
            path = paths[at]
            names[at] = path
        with nogil:
            for at in range(count):
                are_read[at] = read_image(
                    names[at], images + at, buffers + at * <Py_ssize_t>BUFFER_BYTES
                )
        for at in range(count):
            if not are_read[at]:
                found.append(images[at].read_ahead)
                continue
            image = images + at
            found.append((
                (<bytes>image.log_name).decode("ascii", "replace"),
                image.log_bytes,
                PyBytes_FromStringAndSize(image.head, image.head_bytes),
                PyBytes_FromStringAndSize(image.passed, image.passed_bytes),
                image.foot_start,
                PyBytes_FromStringAndSize(image.foot, image.foot_bytes),
                PyBytes_FromStringAndSize(image.end, image.end_bytes),
                image.index_bytes,
                PyBytes_FromStringAndSize(image.index, image.index_read),
            ))
    finally:
        free(names)
        free(images)
        free(are_read)
        free(buffers)
    return found
