/* Uses the table as Mesa does. The struct is a copy of the shape of Mesa's util_sync_provider
 * (src/util/u_sync_provider.h, MIT). */
#include <stdint.h>
#include <time.h>
#include <unistd.h>

struct util_sync_provider {
   int (*create)(struct util_sync_provider *p, uint32_t flags, uint32_t *handle);
   int (*destroy)(struct util_sync_provider *p, uint32_t handle);
   int (*handle_to_fd)(struct util_sync_provider *p, uint32_t handle, int *out_obj_fd);
   int (*fd_to_handle)(struct util_sync_provider *p, int obj_fd, uint32_t *handle);
   int (*import_sync_file)(struct util_sync_provider *p, uint32_t handle, int sync_file_fd);
   int (*export_sync_file)(struct util_sync_provider *p, uint32_t handle, int *out_sync_file_fd);
   int (*wait)(struct util_sync_provider *p, uint32_t *handles, unsigned num_handles,
               int64_t timeout_nsec, unsigned flags, uint32_t *first_signaled);
   int (*reset)(struct util_sync_provider *p, const uint32_t *handles, uint32_t handle_count);
   int (*signal)(struct util_sync_provider *p, const uint32_t *handles, uint32_t handle_count);
   int (*timeline_signal)(struct util_sync_provider *p, const uint32_t *handles,
                          uint64_t *points, uint32_t handle_count);
   int (*timeline_wait)(struct util_sync_provider *p, uint32_t *handles, uint64_t *points,
                        unsigned num_handles, int64_t timeout_nsec, unsigned flags,
                        uint32_t *first_signaled);
   int (*query)(struct util_sync_provider *p, uint32_t *handles, uint64_t *points,
                uint32_t handle_count, uint32_t flags);
   int (*transfer)(struct util_sync_provider *p, uint32_t dst_handle, uint64_t dst_point,
                   uint32_t src_handle, uint64_t src_point, uint32_t flags);
   void (*finalize)(struct util_sync_provider *p);
   struct util_sync_provider *(*clone)(struct util_sync_provider *p);
};

#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (0)

/* Zero, or the line that went wrong. */
int towpath_test_vtable(struct util_sync_provider *p)
{
   uint32_t handles[3], other, first = 99;
   uint64_t points[3] = {5, 6, 7}, seen[3] = {0};
   int fd = -1;

   for (int i = 0; i < 3; i++)
      CHECK(p->create(p, 0, &handles[i]) == 0);
   CHECK(p->wait(p, handles, 3, 0, 0, &first) == -22 && first == 99);
   CHECK(p->timeline_wait(p, handles, points, 3, 0, 2, &first) == -62);
   CHECK(p->timeline_signal(p, handles, points, 3) == 0);
   CHECK(p->timeline_wait(p, handles, points, 3, 0, 1, &first) == 0 && first == 0);
   CHECK(p->query(p, handles, seen, 3, 0) == 0 && seen[0] == 5 && seen[2] == 7);
   CHECK(p->transfer(p, handles[0], 9, handles[2], 7, 0) == 0);
   CHECK(p->query(p, handles, seen, 1, 0) == 0 && seen[0] == 9);

   CHECK(p->export_sync_file(p, handles[0], &fd) == 0 && fd >= 0);
   CHECK(p->reset(p, handles, 3) == 0);
   CHECK(p->wait(p, handles, 1, 0, 0, &first) == -22);
   CHECK(p->import_sync_file(p, handles[1], fd) == 0);
   CHECK(close(fd) == 0);
   CHECK(p->wait(p, &handles[1], 1, 0, 0, &first) == 0);
   CHECK(p->signal(p, handles, 3) == 0);
   CHECK(p->wait(p, handles, 3, INT64_MAX, 1, &first) == 0);

   CHECK(p->handle_to_fd(p, handles[0], &fd) == 0 && fd >= 0);
   CHECK(p->fd_to_handle(p, fd, &other) == 0 && other != handles[0]);
   CHECK(close(fd) == 0);

   /* A clone has the same handles and outlives the first. */
   struct util_sync_provider *q = p->clone(p);
   CHECK(q && q != p);
   p->finalize(p);
   CHECK(q->wait(q, &other, 1, 0, 0, &first) == 0);
   for (int i = 0; i < 3; i++)
      CHECK(q->destroy(q, handles[i]) == 0);
   CHECK(q->destroy(q, other) == 0);
   CHECK(q->destroy(q, other) == -22);
   q->finalize(q);
   return 0;
}
