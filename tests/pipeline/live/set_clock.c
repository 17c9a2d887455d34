/* Shows a real program another time of day, for LD_PRELOAD.
 *
 *   SET_CLOCK_FILE   eight bytes: by how many seconds the wall clock is ahead, or behind; they may
 *                    change at any moment
 *
 * Clocks that nobody sets, and the times of files, are as they are.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *ahead;

__attribute__((constructor)) static void open_file(void)
{
    const char *path = getenv("SET_CLOCK_FILE");
    int file = path == NULL ? -1 : open(path, O_RDONLY);
    void *mapped;

    if (file < 0)
        return;
    mapped = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        ahead = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);

    if (!failed && ahead != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec exact;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec exact;

    clock_gettime(CLOCK_REALTIME, &exact);
    if (now != NULL)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
