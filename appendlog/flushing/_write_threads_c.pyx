"""Threads that write and sync without the interpreter, for `appendlog.flushing.write_threads`.

An interpreted thread takes the interpreter's lock after each system call, from an event loop that
needs it too. These threads never take it: a write is handed over as a list of addresses, and its
result is a few numbers. They end with the process, so a hung disk does not keep it alive.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from os import strerror

cdef extern from *:
    """
    #include <fcntl.h>
    #include <pthread.h>
    #include <semaphore.h>
    #include <signal.h>
    #include <sys/syscall.h>
    #include <sys/uio.h>
    #include <time.h>
    #include <unistd.h>

    #ifndef RWF_DSYNC
    #define RWF_DSYNC 0x00000002
    #endif

    #define STACK_BYTES (256 * 1024)

    /* Not the library's pwritev2: some C libraries have none. */
    static long synced_pwritev(int file, const struct iovec *parts, int count, long long position)
    {
        return syscall(SYS_pwritev2, (long)file, parts, (long)count, (long)position,
                       (long)(position >> 32), (long)RWF_DSYNC);
    }

    /* Signals are for the interpreter's threads. */
    static int start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
    {
        sigset_t all, before;
        pthread_attr_t attributes;
        int error;

        sigfillset(&all);
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(thread, &attributes, run, argument);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        if (!error)
            pthread_setname_np(*thread, "amqp-write");
        return error;
    }
    """
    struct iovec:
        void *iov_base
        size_t iov_len

    struct timespec:
        long tv_sec
        long tv_nsec

    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct sem_t:
        pass

    enum:
        CLOCK_MONOTONIC
        POSIX_FADV_DONTNEED

    int clock_gettime(int, timespec *) nogil
    long synced_pwritev(int, const iovec *, int, long long) nogil
    ssize_t pwrite(int, const void *, size_t, long long) nogil
    ssize_t write(int, const void *, size_t) nogil
    int posix_fadvise(int, long long, long long, int) nogil
    int start_thread(pthread_t *, void *(*)(void *) noexcept nogil, void *)
    int pthread_join(pthread_t, void **) nogil
    int pthread_mutex_init(pthread_mutex_t *, void *)
    int pthread_mutex_destroy(pthread_mutex_t *)
    int pthread_mutex_lock(pthread_mutex_t *) nogil
    int pthread_mutex_unlock(pthread_mutex_t *) nogil
    int sem_init(sem_t *, int, unsigned int)
    int sem_destroy(sem_t *)
    int sem_wait(sem_t *) nogil
    int sem_post(sem_t *)


cdef struct Result:
    long written
    int error
    int64_t nanoseconds


cdef struct Job:
    Job *next
    # The `SegmentWrite`; only threads that have the interpreter's lock touch it.
    PyObject *write
    int file
    int parts_count
    long long position
    size_t octets
    int slot_file
    long long slot_position
    # Pages of the segment that the system need not keep; none if they have no octets.
    long long unneeded_position
    long long unneeded_octets
    Result data
    Result slot
    # Of each part, and then of the slot.
    Py_buffer *buffers
    iovec *parts


cdef struct Jobs:
    Job *first
    Job *last


cdef struct Shared:
    # Counts the jobs that wait. A thread that finds none after it was counted down is to end.
    sem_t has_work
    # Guards both lists.
    pthread_mutex_t lock
    Jobs waiting
    Jobs done
    int bell


cdef inline void put(Jobs *jobs, Job *job) noexcept nogil:
    job.next = NULL
    if jobs.first == NULL:
        jobs.first = job
    else:
        jobs.last.next = job
    jobs.last = job


cdef inline Job *first_of(Jobs *jobs) noexcept nogil:
    cdef Job *job = jobs.first
    if job != NULL:
        jobs.first = job.next
    return job


cdef inline int64_t now() noexcept nogil:
    cdef timespec time
    clock_gettime(CLOCK_MONOTONIC, &time)
    return <int64_t>time.tv_sec * 1_000_000_000 + time.tv_nsec


cdef void carry_out(Job *job) noexcept nogil:
    cdef int64_t began = now()
    cdef Py_buffer *slot = &job.buffers[job.parts_count]
    while True:
        job.data.written = synced_pwritev(job.file, job.parts, job.parts_count, job.position)
        job.data.error = errno if job.data.written < 0 else 0
        if job.data.error != EINTR:
            break
    job.data.nanoseconds = now() - began
    if job.data.written != <long>job.octets:
        return
    began = now()
    while True:
        job.slot.written = pwrite(job.slot_file, slot.buf, slot.len, job.slot_position)
        job.slot.error = errno if job.slot.written < 0 else 0
        if job.slot.error != EINTR:
            break
    job.slot.nanoseconds = now() - began
    if job.unneeded_octets > 0 and job.slot.written == slot.len:
        # It is advice: a file system that does not take it keeps the pages.
        posix_fadvise(job.file, job.unneeded_position, job.unneeded_octets, POSIX_FADV_DONTNEED)


cdef void *run(void *argument) noexcept nogil:
    cdef Shared *shared = <Shared *>argument
    cdef Job *job
    cdef bint must_ring
    cdef ssize_t rung
    while True:
        while sem_wait(&shared.has_work) != 0:
            pass
        pthread_mutex_lock(&shared.lock)
        job = first_of(&shared.waiting)
        pthread_mutex_unlock(&shared.lock)
        if job == NULL:
            return NULL
        carry_out(job)
        pthread_mutex_lock(&shared.lock)
        # Who takes what is done takes all of it.
        must_ring = shared.done.first == NULL
        put(&shared.done, job)
        pthread_mutex_unlock(&shared.lock)
        if must_ring:
            # A bell that takes no more octets rings already.
            rung = write(shared.bell, b"\1", 1)


cdef object error_of(Result *result):
    return OSError(result.error, strerror(result.error)) if result.error else None


cdef class WriteThreads:
    """See `appendlog.flushing.write_threads.WriteThreads`."""

    cdef Shared *shared
    cdef pthread_t *threads
    cdef int count

    def __cinit__(self, int count, int bell):
        cdef int error
        self.shared = <Shared *>malloc(sizeof(Shared))
        self.threads = <pthread_t *>malloc(count * sizeof(pthread_t))
        if self.shared == NULL or self.threads == NULL:
            raise MemoryError
        pthread_mutex_init(&self.shared.lock, NULL)
        sem_init(&self.shared.has_work, 0, 0)
        self.shared.waiting.first = self.shared.done.first = NULL
        self.shared.waiting.last = self.shared.done.last = NULL
        self.shared.bell = bell
        for _ in range(count):
            error = start_thread(&self.threads[self.count], run, self.shared)
            if error:
                self.close()
                raise OSError(error, strerror(error))
            self.count += 1

    def __dealloc__(self):
        # While threads run, what they share stays.
        if self.shared != NULL and self.count == 0:
            sem_destroy(&self.shared.has_work)
            pthread_mutex_destroy(&self.shared.lock)
            free(self.shared)
        free(self.threads)

    def submit(self, write):
        cdef list buffers = [*write.buffers, write.slot]
        cdef int count = len(buffers)
        cdef int filled = 0
        cdef Job *job = <Job *>malloc(
            sizeof(Job) + count * (sizeof(Py_buffer) + sizeof(iovec))
        )
        if job == NULL:
            raise MemoryError
        job.buffers = <Py_buffer *>(job + 1)
        job.parts = <iovec *>(job.buffers + count)
        try:
            job.file = write.segment.descriptor
            job.position = write.position
            job.octets = write.octets
            job.slot_file = write.end.descriptor
            job.slot_position = write.slot_position
            start, end = write.unneeded
            job.unneeded_position = start
            job.unneeded_octets = end - start
            for buffer in buffers:
                PyObject_GetBuffer(buffer, &job.buffers[filled], PyBUF_SIMPLE)
                job.parts[filled].iov_base = job.buffers[filled].buf
                job.parts[filled].iov_len = job.buffers[filled].len
                filled += 1
        except BaseException:
            while filled:
                filled -= 1
                PyBuffer_Release(&job.buffers[filled])
            free(job)
            raise
        job.parts_count = count - 1
        job.data = Result(-1, 0, 0)
        job.slot = Result(-1, 0, 0)
        Py_INCREF(write)
        job.write = <PyObject *>write
        pthread_mutex_lock(&self.shared.lock)
        put(&self.shared.waiting, job)
        pthread_mutex_unlock(&self.shared.lock)
        sem_post(&self.shared.has_work)

    def take(self):
        cdef Job *job
        cdef Job *next_job
        cdef int at
        cdef list writes = []
        pthread_mutex_lock(&self.shared.lock)
        job = self.shared.done.first
        self.shared.done.first = NULL
        pthread_mutex_unlock(&self.shared.lock)
        while job != NULL:
            next_job = job.next
            for at in range(job.parts_count + 1):
                PyBuffer_Release(&job.buffers[at])
            write = <object>job.write
            Py_DECREF(write)
            write.note_written(
                job.data.written,
                error_of(&job.data),
                job.data.nanoseconds / 1e9,
                job.slot.written,
                error_of(&job.slot),
                job.slot.nanoseconds / 1e9,
            )
            writes.append(write)
            free(job)
            job = next_job
        return writes

    def written(self):
        cdef Job *job
        cdef int count = 0
        cdef int at = 0
        pthread_mutex_lock(&self.shared.lock)
        job = self.shared.done.first
        while job != NULL:
            count += 1
            job = job.next
        pthread_mutex_unlock(&self.shared.lock)
        # Not under the lock: making it may collect garbage, and so let a thread run that takes.
        cdef list writes = [None] * count
        pthread_mutex_lock(&self.shared.lock)
        job = self.shared.done.first
        while job != NULL and at < count:
            writes[at] = <object>job.write
            at += 1
            job = job.next
        pthread_mutex_unlock(&self.shared.lock)
        return writes[:at]

    def close(self):
        cdef int at
        for at in range(self.count):
            sem_post(&self.shared.has_work)
        while self.count:
            with nogil:
                pthread_join(self.threads[self.count - 1], NULL)
            self.count -= 1
