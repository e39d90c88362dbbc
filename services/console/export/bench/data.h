/* Recorded values, and the sets of buffers that arms share. */
#ifndef ASSAY_DATA_H
#define ASSAY_DATA_H
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "claim.h"

enum { REPEATED = 0, FAILED = 1, USAGE = 2, NOT_REPEATED = 5 };
enum { MAX_SETS = 2048, SIDES = 2, LINE_BYTES = 64, MOST_LINES = 64 };
static const uint64_t ROTATION_CAP_BYTES = 1ull << 30;
static const uint32_t POISON = 0x7FA5A5A5; /* a signalling NaN */

/* ---- small things ---------------------------------------------------------------------------------------------- */

static void fail(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(FAILED);
}

static void *allocated(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        fail("no memory");
    return memory;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&t, NULL);
}

static uint64_t random_state;

/* splitmix64 (Steele, Lea, Flood 2014): a number below `most`. Order and places only; contents are recorded ones. */
static uint64_t random_below(uint64_t most)
{
    uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % most;
}

/* ---- recorded data --------------------------------------------------------------------------------------------- */

/* What one data file holds: for each buffer that is read, values that are repeated until it is full; for each buffer that
 * is written, some of its elements with the float64 result and how far a float32 one may be from it. */
struct recorded {
    float *pool[BUFFERS];
    uint64_t pool_length[BUFFERS];
    uint64_t checks[BUFFERS];
    uint64_t *index[BUFFERS];
    double *want[BUFFERS], *bound[BUFFERS];
};

static void *read_array(FILE *file, size_t size, uint64_t *count)
{
    if (fread(count, sizeof *count, 1, file) != 1)
        fail("a data file ends early");
    void *values = allocated(size * *count);
    if (*count && fread(values, size, *count, file) != *count)
        fail("a data file ends early");
    return values;
}

static struct recorded read_recorded(const char *path)
{
    struct recorded data = {0};
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path);
    for (int b = 0; b < BUFFERS; b++)
        if (buffers[b].is_read)
            data.pool[b] = read_array(file, sizeof(float), &data.pool_length[b]);
    for (int b = 0; b < BUFFERS; b++)
        if (buffers[b].is_written) {
            uint64_t count;
            data.index[b] = read_array(file, sizeof(uint64_t), &data.checks[b]);
            data.want[b] = read_array(file, sizeof(double), &count);
            data.bound[b] = read_array(file, sizeof(double), &count);
        }
    fclose(file);
    return data;
}

static void forget(struct recorded *data)
{
    for (int b = 0; b < BUFFERS; b++) {
        free(data->pool[b]);
        free(data->index[b]);
        free(data->want[b]);
        free(data->bound[b]);
    }
}

/* ---- buffer sets ----------------------------------------------------------------------------------------------- */

/* One set of arguments. `kept` holds what a buffer that is both read and written held before a call. */
struct set {
    float *at[BUFFERS];
    float *kept[BUFFERS];
};

static char *arena;
static size_t arena_bytes;
static struct set sets[MAX_SETS];
static const struct size *shape_now;
static int sets_now;

static size_t buffer_bytes(const struct size *size, int b)
{
    size_t bytes = size->elements[b] * sizeof(float);
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static size_t set_bytes(const struct size *size)
{
    size_t total = 0;
    for (int b = 0; b < BUFFERS; b++)
        total += size->elements[b] * sizeof(float);
    return total;
}

static int is_replaced(int b) { return buffers[b].is_read && buffers[b].is_written; }

/* Room for `sides` sets that share what is only written: each buffer may begin up to a page into its place, as when the
 * claim was timed. */
static size_t room_bytes(const struct size *size, int sides)
{
    size_t total = 0;
    for (int b = 0; b < BUFFERS; b++) {
        size_t places = (size_t)(buffers[b].is_read ? sides : 1) * (size_t)(1 + is_replaced(b));
        total += places * (buffer_bytes(size, b) + LINE_BYTES * MOST_LINES);
    }
    return total;
}

/* How many pairs of sets a sample rotates over so that a call finds its data as cold, or as hot, as when the claim was
 * timed. */
static int rotation(const struct size *size)
{
    size_t bytes = set_bytes(size) ? set_bytes(size) : 1;
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t llc = cache > 0 ? (size_t)cache : (size_t)LLC_BYTES;
    if (IS_HOT || bytes > 2 * llc)
        return 1;
    size_t wanted = (2 * llc + bytes - 1) / bytes + 1, most = ROTATION_CAP_BYTES / (room_bytes(size, SIDES) + 1);
    wanted = wanted < most ? wanted : most;
    return wanted < 1 ? 1 : wanted > MAX_SETS / SIDES ? MAX_SETS / SIDES : (int)wanted;
}

static float *place(char **next, const struct size *size, int b)
{
    char *at = *next + LINE_BYTES * random_below(MOST_LINES);
    *next += buffer_bytes(size, b) + LINE_BYTES * MOST_LINES;
    return (float *)at;
}

/* The first sets of all pairs, then the second ones. The two of a pair share what is only written, so every timed call
 * finds there the answer to other values: a kernel that returns early where the answer looks right gains nothing. */
static void lay_out(const struct size *size, int pairs, int sides)
{
    char *next = arena;
    shape_now = size, sets_now = pairs * sides;
    for (int s = 0; s < sets_now; s++)
        for (int b = 0; b < BUFFERS; b++) {
            int is_shared = s >= pairs && !buffers[b].is_read;
            sets[s].at[b] = is_shared ? sets[s - pairs].at[b] : place(&next, size, b);
            sets[s].kept[b] = is_replaced(b) ? place(&next, size, b) : NULL;
        }
}

/* What is only written holds no result. */
static void poison(const struct set *set)
{
    for (int b = 0; b < BUFFERS; b++)
        for (uint64_t i = 0; !buffers[b].is_read && i < shape_now->elements[b]; i++)
            memcpy(&set->at[b][i], &POISON, sizeof POISON);
}

/* The set holds the recorded values from `turn` on. With turn 0 the recorded results belong to it. */
static void fill(const struct set *set, const struct recorded *data, uint64_t turn)
{
    for (int b = 0; b < BUFFERS; b++) {
        uint64_t count = shape_now->elements[b], from = turn % (data->pool_length[b] ? data->pool_length[b] : 1);
        for (uint64_t i = 0; buffers[b].is_read && i < count;) {
            uint64_t run = data->pool_length[b] - from;
            run = run < count - i ? run : count - i;
            memcpy(set->at[b] + i, data->pool[b] + from, run * sizeof(float));
            i += run, from = 0;
        }
        if (set->kept[b])
            memcpy(set->kept[b], set->at[b], count * sizeof(float));
    }
}

#endif
