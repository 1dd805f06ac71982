// framework/dist/machine.c - identifies the host of a rank
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/dist/rendezvous.h"

// FNV-1a.
static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    for (size_t i = 0; i < size; ++i) {
        hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211U;
    }
    return hash;
}

uint64_t bt_rendezvous_machine(void)
{
    static const char *const namespaces[] = {"/proc/self/ns/pid", "/proc/self/ns/net"};
    uint64_t hash = 14695981039346656037U;
    char boot[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, boot, sizeof boot) : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    hash = mix(hash, boot, bytes > 0 ? (size_t)bytes : 0);
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; ++i) {
        struct stat about;
        if (stat(namespaces[i], &about) == 0) {
            hash = mix(hash, &about.st_ino, sizeof about.st_ino);
        }
    }
    return hash != 0 ? hash : 1;
}
