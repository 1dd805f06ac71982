#include "framework/dist/region.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/dist/group.h"

static const uint64_t layout_magic = 0x6274726567696f31; // "btregio1"

static uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

static uint64_t region_bytes(int size)
{
    uint64_t ranks = (uint64_t)size;
    return aligned(sizeof(bt_region_head)) + aligned(ranks * sizeof(bt_member)) +
           ranks * ranks * sizeof(bt_ring);
}

static void place(bt_region *region, void *base, int size)
{
    char *bytes = base;
    uint64_t members = aligned(sizeof(bt_region_head));
    region->head = base;
    region->members = (bt_member *)(void *)(bytes + members);
    region->rings =
        (bt_ring *)(void *)(bytes + members + aligned((uint64_t)size * sizeof(bt_member)));
    region->size_bytes = region_bytes(size);
}

static bt_status map(int fd, int size, bt_region *region)
{
    int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *base = mmap(NULL, region_bytes(size), PROT_READ | PROT_WRITE, flags, fd, 0);
    if (base == MAP_FAILED) {
        return bt_error(BT_STATUS_UNAVAILABLE, "cannot map %llu bytes of memory for %d ranks: %s",
                        (unsigned long long)region_bytes(size), size, strerror(errno));
    }
    place(region, base, size);
    return BT_OK;
}

static bt_status create_file(int size, int *fd)
{
    *fd = memfd_create("bt-ranks", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)region_bytes(size)) != 0) {
        int error = errno;
        if (*fd >= 0) {
            (void)close(*fd);
        }
        *fd = -1;
        return bt_error(BT_STATUS_UNAVAILABLE, "cannot make %llu bytes of shared memory: %s",
                        (unsigned long long)region_bytes(size), strerror(error));
    }
    return BT_OK;
}

bt_status bt_region_create(int size, int *fd, bt_region *region)
{
    *region = (bt_region){0};
    if (size < 1 || size > BT_GROUP_MAX_SIZE) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "a group has 1 to %d ranks, got %d",
                        BT_GROUP_MAX_SIZE, size);
    }
    int file = -1;
    if (fd != NULL) {
        BT_TRY(create_file(size, &file));
    }
    bt_status status = map(file, size, region);
    if (status != BT_OK) {
        if (file >= 0) {
            (void)close(file);
        }
        return status;
    }
    region->head->magic = layout_magic;
    region->head->size = size;
    if (fd != NULL) {
        *fd = file;
    }
    return BT_OK;
}

bt_status bt_region_attach(int fd, int size, bt_region *region)
{
    *region = (bt_region){0};
    struct stat about;
    bool sized = size >= 1 && size <= BT_GROUP_MAX_SIZE && fstat(fd, &about) == 0 &&
                 (uint64_t)about.st_size == region_bytes(size);
    if (!sized) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "descriptor %d is not the shared memory of a group of %d ranks", fd, size);
    }
    BT_TRY(map(fd, size, region));
    if (region->head->magic != layout_magic || region->head->size != size) {
        bt_region_detach(region);
        return bt_error(BT_STATUS_INVALID_ARGUMENT,
                        "the shared memory of descriptor %d is of another build or group", fd);
    }
    return BT_OK;
}

void bt_region_detach(bt_region *region)
{
    if (region->head != NULL) {
        (void)munmap(region->head, region->size_bytes);
    }
    *region = (bt_region){0};
}

bt_status bt_region_join(bt_region *region, int rank)
{
    bt_member *member = &region->members[rank];
    int nobody = 0; // the compare-and-swap decides who joins as this rank
    if (!atomic_compare_exchange_strong(&member->pid, &nobody, (int)getpid())) {
        return bt_error(BT_STATUS_INVALID_ARGUMENT, "two ranks have joined as rank %d", rank);
    }
    atomic_store(&member->state, BT_MEMBER_JOINED);
    return BT_OK;
}

void bt_region_leave(bt_region *region, int rank)
{
    atomic_store(&region->members[rank].state, BT_MEMBER_LEFT);
}

void bt_region_abort(bt_region *region, int rank, const char *reason)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&region->head->aborting, &none, 1)) {
        region->head->abort_rank = rank;
        (void)snprintf(region->head->reason, sizeof region->head->reason, "%s", reason);
        atomic_store_explicit(&region->head->aborting, 2, memory_order_release);
    }
}

bool bt_region_aborted(const bt_region *region)
{
    return atomic_load_explicit(&region->head->aborting, memory_order_acquire) == 2;
}
