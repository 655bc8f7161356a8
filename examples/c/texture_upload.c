/* Seed 001's scene: a guest's texture lies in scattered pieces of a memory file. Before: gathered into a
 * temporary buffer, then copied to the texture. After: gathered straight into it, or seen as one.
 *
 *   cc -std=c11 texture_upload.c -ltowpath -o texture_upload */
#define _GNU_SOURCE
#include "common.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIDE = 1024, PIXEL = 4, PAGE = 4096, PIECES = SIDE * SIDE * PIXEL / PAGE, ROUNDS = 20 };
static const size_t BYTES = (size_t)PIECES * PAGE;

/* Piece i of the texture lies at page i * 7 % PIECES of the guest's memory: nothing continues anything. */
static size_t page_of(size_t i)
{
    return i * 7 % PIECES;
}

static uint8_t value_at(size_t i)
{
    return (uint8_t)(i ^ (i >> 8) ^ (i >> 16));
}

static double median(double *values)
{
    for (int i = 1; i < ROUNDS; i++)
        for (int k = i; k > 0 && values[k] < values[k - 1]; k--) {
            double swapped = values[k];
            values[k] = values[k - 1];
            values[k - 1] = swapped;
        }
    return values[ROUNDS / 2];
}

static void check(const uint8_t *texture)
{
    for (size_t i = 0; i < BYTES; i++)
        CHECK(texture[i] == value_at(i));
}

/* As a mapped pixel-unpack buffer is. */
static uint8_t *pages(void)
{
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memset(memory, 1, BYTES);
}

int main(void)
{
    int fd = memfd_create("guest", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)BYTES) == 0);
    uint8_t *guest = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(guest != MAP_FAILED);
    static tp_piece pieces[PIECES];
    static tp_file_piece file_pieces[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        uint8_t *page = guest + page_of(i) * PAGE;
        for (size_t k = 0; k < PAGE; k++)
            page[k] = value_at(i * PAGE + k);
        pieces[i] = (tp_piece){ page, PAGE };
        file_pieces[i] = (tp_file_piece){ fd, page_of(i) * PAGE, PAGE };
    }
    uint8_t *texture = pages(), *temporary = pages();
    double before[ROUNDS], gathered[ROUNDS], viewed[ROUNDS];
    tp_view *view = NULL;
    MUST(tp_view_create(file_pieces, PIECES, &view));
    void *seen = NULL;
    size_t seen_bytes = 0;
    MUST(tp_view_data(view, &seen, &seen_bytes));
    CHECK(seen_bytes == BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        memset(texture, 0, BYTES);
        double start = now_ms();
        for (size_t i = 0; i < PIECES; i++)
            memcpy(temporary + i * PAGE, pieces[i].address, pieces[i].bytes);
        memcpy(texture, temporary, BYTES);
        before[round] = now_ms() - start;
        check(texture);

        memset(texture, 0, BYTES);
        start = now_ms();
        MUST(tp_pieces_gather(pieces, PIECES, 0, texture, BYTES, 1));
        gathered[round] = now_ms() - start;
        check(texture);

        memset(texture, 0, BYTES);
        start = now_ms();
        memcpy(texture, seen, BYTES);
        viewed[round] = now_ms() - start;
        check(texture);
    }
    CHECK(tp_pieces_gather(pieces, PIECES, 1, texture, BYTES, 0) == TP_ERROR_INVALID);
    printf("%dx%d RGBA in %d pieces: temporary copy %.3f ms, gathered %.3f ms, one view %.3f ms\n", SIDE, SIDE,
           PIECES, median(before), median(gathered), median(viewed));
    says_ratio("a texture in pieces", median(before), median(gathered));
    MUST(tp_view_free(view));
    munmap(texture, BYTES);
    munmap(temporary, BYTES);
    munmap(guest, BYTES);
    close(fd);
    puts("ok");
    return 0;
}
