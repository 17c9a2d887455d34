/* Lets one fdatasync or fsync of a real program fail, for LD_PRELOAD.
 *
 *   FAILING_SYNC_PATH   only files whose path has this in it are concerned
 *   FAILING_SYNC_AT     the how-manieth such sync fails with EIO, counted from 1
 *   FAILING_SYNC_LOG    each such sync leaves a line here: "ok", or "failed"
 *
 * What was to be synced is left as it is: the test is about what the program does next.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*sync_call)(int);

static atomic_long seen;

static int is_concerned(int descriptor)
{
    const char *part = getenv("FAILING_SYNC_PATH");
    char link[64], path[PATH_MAX];
    ssize_t length;

    if (part == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    return strstr(path, part) != NULL;
}

static void note(const char *line)
{
    const char *name = getenv("FAILING_SYNC_LOG");
    int log = name == NULL ? -1 : open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (log < 0)
        return;
    if (write(log, line, strlen(line)) < 0)
        _exit(99);
    close(log);
}

static int sync_or_fail(int descriptor, const char *name)
{
    const char *at = getenv("FAILING_SYNC_AT");
    sync_call real = (sync_call)dlsym(RTLD_NEXT, name);

    if (!is_concerned(descriptor))
        return real(descriptor);
    if (at != NULL && atomic_fetch_add(&seen, 1) + 1 == atol(at)) {
        note("failed\n");
        errno = EIO;
        return -1;
    }
    note("ok\n");
    return real(descriptor);
}

int fdatasync(int descriptor)
{
    return sync_or_fail(descriptor, "fdatasync");
}

int fsync(int descriptor)
{
    return sync_or_fail(descriptor, "fsync");
}
