/* Writes down what a process does to the files below a directory, before it does it: enough to take back, after the
 * process was killed, what a power cut would have taken. Loaded with LD_PRELOAD; power_cut.py reads what it writes.
 *
 *     POWER_DIR  the directory (an absolute path)
 *     POWER_LOG  where to write
 *
 * A record, in the machine's byte order (power_cut.RECORD):
 *
 *     kind:u8 path_bytes:u32 number:u64 offset:u64 new_bytes:u64 old_size:u64 old_bytes:u64 path old
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, SYNCED = 3, RENAME = 4, REMOVE = 5 };
enum { FILES_MAX = 65536 };

static char *paths[FILES_MAX]; /* of the open files below the directory */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static uint64_t numbers;
static char directory[PATH_MAX];

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

__attribute__((constructor)) static void begin(void) {
    const char *dir = getenv("POWER_DIR"), *log = getenv("POWER_LOG");
    if (!dir || !log) return;
    strncpy(directory, dir, sizeof directory - 1);
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void put(const void *data, size_t size) {
    for (const char *at = data; size;) {
        ssize_t done = syscall(SYS_write, log_fd, at, size);
        if (done <= 0) abort();
        at += done, size -= (size_t)done;
    }
}

/* With the lock held. */
static uint64_t record(uint8_t kind, const char *path, uint64_t number, uint64_t offset, uint64_t bytes, uint64_t size,
                       const void *old, uint64_t old_bytes) {
    struct __attribute__((packed)) {
        uint8_t kind;
        uint32_t path_bytes;
        uint64_t number, offset, new_bytes, old_size, old_bytes;
    } head = {kind, (uint32_t)strlen(path), number ? number : ++numbers, offset, bytes, size, old_bytes};
    put(&head, sizeof head);
    put(path, head.path_bytes);
    put(old, old_bytes);
    return head.number;
}

static int is_below(const char *path) {
    size_t length = strlen(directory);
    return log_fd >= 0 && length && !strncmp(path, directory, length) && path[length] == '/';
}

static void opened(int fd, const char *path, int flags) {
    if (fd < 0 || fd >= FILES_MAX) return;
    pthread_mutex_lock(&lock);
    free(paths[fd]);
    paths[fd] = is_below(path) && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_DIRECTORY) ? strdup(path) : NULL;
    pthread_mutex_unlock(&lock);
}

static const char *path_of(int fd) { return fd >= 0 && fd < FILES_MAX && log_fd >= 0 ? paths[fd] : NULL; }

/* Note what is about to be overwritten; at < 0: where the file stands. */
static void before(int fd, off_t at, size_t bytes) {
    pthread_mutex_lock(&lock);
    const char *path = path_of(fd);
    struct stat now;
    if (path && !fstat(fd, &now)) {
        if (at < 0) at = fcntl(fd, F_GETFL) & O_APPEND ? now.st_size : lseek(fd, 0, SEEK_CUR);
        size_t old_bytes = at < now.st_size ? (size_t)(now.st_size - at) : 0;
        if (old_bytes > bytes) old_bytes = bytes;
        char *old = malloc(old_bytes + 1);
        int reader = old_bytes ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0) : -1;
        if (old_bytes && (reader < 0 || syscall(SYS_pread64, reader, old, old_bytes, at) != (long)old_bytes)) abort();
        if (reader >= 0) syscall(SYS_close, reader);
        record(WRITE, path, 0, (uint64_t)at, bytes, (uint64_t)now.st_size, old, old_bytes);
        free(old);
    }
    pthread_mutex_unlock(&lock);
}

static int synced(int fd, int (*sync)(int)) {
    uint64_t number = 0;
    char path[PATH_MAX] = "";
    pthread_mutex_lock(&lock);
    if (path_of(fd)) {
        strncpy(path, path_of(fd), sizeof path - 1);
        number = record(SYNC, path, 0, 0, 0, 0, "", 0);
    }
    pthread_mutex_unlock(&lock);
    int result = sync(fd);
    if (number && !result) {
        pthread_mutex_lock(&lock);
        record(SYNCED, path, number, 0, 0, 0, "", 0);
        pthread_mutex_unlock(&lock);
    }
    return result;
}

/* --- what is called instead of the C library ---------------------------------------------------------------------- */

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, #name, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, int) : 0; \
        va_end(rest); \
        int fd = real(path, flags, mode); \
        opened(fd, path, flags); \
        return fd; \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(int, #name, int, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, int) : 0; \
        va_end(rest); \
        int fd = real(at, path, flags, mode); \
        opened(fd, path, flags); \
        return fd; \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
    REAL(int, "close", int);
    opened(fd, "", O_RDONLY);
    return real(fd);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (path_of(fd)) before(fd, -1, bytes);
    return real(fd, data, bytes);
}

static size_t total(const struct iovec *parts, int count) {
    size_t bytes = 0;
    for (int each = 0; each < count; each++) bytes += parts[each].iov_len;
    return bytes;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (path_of(fd)) before(fd, -1, total(parts, count));
    return real(fd, parts, count);
}

#define PWRITE(name, place) \
    ssize_t name(int fd, const void *data, size_t bytes, place at) { \
        REAL(ssize_t, #name, int, const void *, size_t, place); \
        if (path_of(fd)) before(fd, at, bytes); \
        return real(fd, data, bytes, at); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define TRUNCATE(name, place) \
    int name(int fd, place size) { \
        REAL(int, #name, int, place); \
        struct stat now; \
        if (path_of(fd) && !fstat(fd, &now)) before(fd, size, size < now.st_size ? (size_t)(now.st_size - size) : 0); \
        return real(fd, size); \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int fsync(int fd) {
    REAL(int, "fsync", int);
    return synced(fd, real);
}

int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    return synced(fd, real);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    if (is_below(from)) {
        pthread_mutex_lock(&lock);
        record(RENAME, from, 0, 0, 0, 0, to, strlen(to));
        for (int fd = 0; fd < FILES_MAX; fd++)
            if (paths[fd] && !strcmp(paths[fd], from)) free(paths[fd]), paths[fd] = strdup(to);
        pthread_mutex_unlock(&lock);
    }
    return real(from, to);
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    if (is_below(path)) {
        pthread_mutex_lock(&lock);
        record(REMOVE, path, 0, 0, 0, 0, "", 0);
        pthread_mutex_unlock(&lock);
    }
    return real(path);
}
