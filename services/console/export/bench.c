/* Repeats a claim of Assay with nothing of Assay: gcc, libc and the files beside this one.
 *
 * It checks the champion and its baseline against float64 results that were recorded with it, then times them as the claim
 * was timed (docs/design/measurement.md): two fresh processes per pair on the same shared buffers, never at the same time,
 * interleaved A B B A, at least 10 ms a sample, a Student-t interval over the pairs. `claim.h` has the tables.
 *
 * Exit status: 0 repeated, 1 wrong results or a kernel that ended, 2 usage, 5 correct but not faster here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "claim.h"

enum { REPEATED = 0, FAILED = 1, USAGE = 2, NOT_REPEATED = 5 };
enum { MAX_SETS = 2048, LINE_BYTES = 64, MOST_LINES = 64, MAX_ATTEMPTS = 6, PATIENCE_MS = 120000 };
static const uint64_t MIN_SAMPLE_NS = 10000000, PAUSE_NS = 5000000, ROTATION_CAP_BYTES = 1ull << 30;
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

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
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

/* Room for one set: each buffer may begin up to a page into its place, as when the claim was timed. */
static size_t room_bytes(const struct size *size)
{
    size_t total = 0;
    for (int b = 0; b < BUFFERS; b++)
        total += (1 + (buffers[b].is_read && buffers[b].is_written)) * (buffer_bytes(size, b) + LINE_BYTES * MOST_LINES);
    return total;
}

/* How many sets a sample rotates over so that a call finds its data as cold, or as hot, as when the claim was timed. */
static int rotation(const struct size *size)
{
    size_t bytes = set_bytes(size) ? set_bytes(size) : 1;
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t llc = cache > 0 ? (size_t)cache : (size_t)LLC_BYTES;
    if (IS_HOT || bytes > 2 * llc)
        return 1;
    size_t wanted = (2 * llc + bytes - 1) / bytes + 1, most = ROTATION_CAP_BYTES / bytes;
    wanted = wanted < most ? wanted : most;
    return wanted < 1 ? 1 : wanted > MAX_SETS ? MAX_SETS : (int)wanted;
}

static float *place(char **next, const struct size *size, int b)
{
    char *at = *next + LINE_BYTES * random_below(MOST_LINES);
    *next += buffer_bytes(size, b) + LINE_BYTES * MOST_LINES;
    return (float *)at;
}

static void lay_out(const struct size *size, int count)
{
    char *next = arena;
    shape_now = size, sets_now = count;
    for (int s = 0; s < count; s++)
        for (int b = 0; b < BUFFERS; b++) {
            sets[s].at[b] = place(&next, size, b);
            sets[s].kept[b] = buffers[b].is_read && buffers[b].is_written ? place(&next, size, b) : NULL;
        }
}

/* The set holds the recorded values from `turn` on, and no result. With turn 0 the recorded results belong to it. */
static void fill(const struct set *set, const struct recorded *data, uint64_t turn)
{
    for (int b = 0; b < BUFFERS; b++) {
        uint64_t count = shape_now->elements[b];
        if (!buffers[b].is_read)
            for (uint64_t i = 0; i < count; i++)
                memcpy(&set->at[b][i], &POISON, sizeof POISON);
        else
            for (uint64_t i = 0, from = turn % (data->pool_length[b] ? data->pool_length[b] : 1); i < count;) {
                uint64_t run = data->pool_length[b] - from;
                run = run < count - i ? run : count - i;
                memcpy(set->at[b] + i, data->pool[b] + from, run * sizeof(float));
                i += run, from = 0;
            }
        if (set->kept[b])
            memcpy(set->kept[b], set->at[b], count * sizeof(float));
    }
}

/* ---- an arm: a process of its own that holds one kernel and calls it ------------------------------------------- */

enum what { CALL, TIME };
struct order {
    enum what what;
    int set;
};
struct sample {
    uint64_t elapsed_ns, calls;
};
struct process {
    const struct arm *arm;
    pid_t pid;
    int orders, answers;
};

static int is_restored(const struct set *set)
{
    for (int b = 0; b < BUFFERS; b++)
        if (set->kept[b])
            return 1;
    return 0;
}

static void restore(const struct set *set)
{
    for (int b = 0; b < BUFFERS; b++)
        if (set->kept[b])
            memcpy(set->at[b], set->kept[b], shape_now->elements[b] * sizeof(float));
}

/* Calls with no clock between them. What a kernel writes over is restored outside the span: then the calls come in rounds
 * over all sets, restored before each round, so that a call finds them as cold as any other data. */
static uint64_t timed(kernel *run, uint64_t calls, int *turn)
{
    uint64_t elapsed = 0, round = is_restored(&sets[0]) ? (uint64_t)sets_now : calls;
    int at = *turn;
    for (uint64_t done = 0; done < calls; done += round) {
        uint64_t count = calls - done < round ? calls - done : round;
        for (uint64_t i = 0; is_restored(&sets[0]) && i < count; i++)
            restore(&sets[((uint64_t)at + i) % (uint64_t)sets_now]);
        uint64_t started = now_ns();
        for (uint64_t i = 0; i < count; i++) {
            call_kernel(run, sets[at].at, shape_now);
            at = at + 1 == sets_now ? 0 : at + 1;
        }
        elapsed += now_ns() - started;
    }
    *turn = at;
    return elapsed;
}

/* Pause, one untimed call, then enough calls for 10 ms. A sample that comes out short is taken again with more. */
static struct sample take_sample(kernel *run)
{
    static int turn;
    static uint64_t calls;
    static const struct size *known;
    struct sample sample = {0};
    if (known != shape_now)
        known = shape_now, calls = 0, turn = 0;
    for (int i = 0; i < MAX_ATTEMPTS && sample.elapsed_ns < MIN_SAMPLE_NS; i++) {
        pause_ns(PAUSE_NS);
        uint64_t first = timed(run, 1, &turn);
        if (i > 0 || !calls)
            calls = 1 + (uint64_t)(1.2 * (double)MIN_SAMPLE_NS / (double)((i ? sample.elapsed_ns / sample.calls : first) + 1));
        sample = (struct sample){timed(run, calls, &turn), calls};
    }
    return sample;
}

static void touch(void)
{
    for (size_t at = 0; at < arena_bytes; at += 4096) {
        volatile char *page = arena + at;
        *page = *page;
    }
}

static void serve(const struct arm *arm, int orders, int answers)
{
    struct order order;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; arm->environment[i]; i += 2)
        setenv(arm->environment[i], arm->environment[i + 1], 1);
    void *library = dlopen(arm->object, RTLD_NOW | RTLD_LOCAL);
    kernel *run = library ? (kernel *)(uintptr_t)dlsym(library, ENTRY) : NULL;
    if (!run) {
        fprintf(stderr, "bench: %s: %s (run `make` first)\n", arm->object, dlerror());
        _exit(FAILED);
    }
    touch();
    while (read(orders, &order, sizeof order) == sizeof order) {
        struct sample sample = {0};
        if (order.what == TIME)
            sample = take_sample(run);
        else
            call_kernel(run, sets[order.set].at, shape_now);
        if (write(answers, &sample, sizeof sample) != sizeof sample)
            break;
    }
    _exit(0);
}

static struct process start(const struct arm *arm)
{
    int orders[2], answers[2];
    if (pipe(orders) || pipe(answers))
        fail("pipe");
    struct process process = {arm, fork(), orders[1], answers[0]};
    if (process.pid < 0)
        fail("fork");
    if (process.pid == 0) {
        close(orders[1]);
        close(answers[0]);
        serve(arm, orders[0], answers[1]);
    }
    close(orders[0]);
    close(answers[1]);
    return process;
}

static void end(struct process *process)
{
    close(process->orders);
    close(process->answers);
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
}

static struct sample ask(struct process *process, enum what what, int set)
{
    struct order order = {what, set};
    struct sample sample;
    struct pollfd answer = {process->answers, POLLIN, 0};
    int status = 0;
    if (write(process->orders, &order, sizeof order) == sizeof order && poll(&answer, 1, PATIENCE_MS) > 0 &&
        read(process->answers, &sample, sizeof sample) == sizeof sample)
        return sample;
    int ended = waitpid(process->pid, &status, WNOHANG) == process->pid || (usleep(100000), waitpid(process->pid, &status, WNOHANG)) == process->pid;
    if (ended && WIFSIGNALED(status))
        fprintf(stderr, "bench: %s was ended by signal %d (%s) at %s\n", process->arm->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)), shape_now->name);
    else
        fprintf(stderr, "bench: %s gave no answer at %s\n", process->arm->name, shape_now->name);
    kill(process->pid, SIGKILL);
    exit(FAILED);
}

/* ---- right or wrong -------------------------------------------------------------------------------------------- */

/* The largest error over its bound among the checked elements of set 0; above 1, or NaN, is wrong. */
static double worst_margin(const struct recorded *data)
{
    double worst = 0.0;
    for (int b = 0; b < BUFFERS; b++)
        for (uint64_t i = 0; i < data->checks[b]; i++) {
            double got = (double)sets[0].at[b][data->index[b][i]];
            double error = fabs(got - data->want[b][i]), bound = data->bound[b][i];
            if (!(error <= bound))
                return error > 0 && bound > 0 ? error / bound : NAN;
            worst = bound > 0 && error / bound > worst ? error / bound : worst;
        }
    return worst;
}

static int is_right(struct process *process, const struct recorded *data)
{
    fill(&sets[0], data, 0);
    ask(process, CALL, 0);
    double margin = worst_margin(data);
    if (margin <= 1.0)
        return 1;
    printf("  %s is WRONG at %s: %.3g times the bound\n", process->arm->name, shape_now->name, margin);
    return 0;
}

static int checked(const struct arm *arm)
{
    int right = 1;
    uint64_t elements = 0;
    for (int c = 0; c < CASES; c++) {
        struct recorded data = read_recorded(cases[c].file);
        lay_out(&cases[c].size, 1);
        struct process process = start(arm); /* a fresh one: no case finds what another left */
        right &= is_right(&process, &data);
        end(&process);
        for (int b = 0; b < BUFFERS; b++)
            elements += data.checks[b];
        forget(&data);
    }
    if (right)
        printf("  %s: %llu recorded elements in %d cases, all within the bound\n", arm->name, (unsigned long long)elements, CASES);
    fflush(stdout);
    return right;
}

/* ---- fast or not ----------------------------------------------------------------------------------------------- */

/* The logarithm of baseline time over champion time, from one A B B A: linear drift cancels. */
static double quad(struct process *champion, struct process *baseline, double ns[2])
{
    int champion_first = (int)random_below(2);
    double logs[2] = {0, 0};
    ns[0] = ns[1] = 0;
    for (int i = 0; i < 4; i++) {
        int is_champion = (i == 0 || i == 3) == champion_first;
        struct sample sample = ask(is_champion ? champion : baseline, TIME, 0);
        double each = (double)sample.elapsed_ns / (double)sample.calls;
        logs[is_champion] += log(each) / 2;
        ns[is_champion] += each / 2;
    }
    return logs[0] - logs[1];
}

struct at_shape {
    double log_ratio, baseline_ns, champion_ns;
};

static struct at_shape pair_at(int s, int quads)
{
    const struct timed_shape *shape = &shapes[s];
    struct recorded data = read_recorded(cases[shape->check].file);
    const struct size *size = &cases[shape->check].size;
    double ratios[quads], theirs[quads], ours[quads], ns[2];
    lay_out(size, rotation(size));
    for (int i = 0; i < sets_now; i++)
        fill(&sets[i], &data, random_below(1u << 30));
    struct process champion = start(&arms[0]), baseline = start(&arms[shape->arm]);
    ask(&champion, TIME, 0); /* counts nowhere: threads are placed, pages are there */
    ask(&baseline, TIME, 0);
    for (int q = 0; q < quads; q++) {
        for (int i = 0; i < sets_now && i < 64; i++)
            fill(&sets[random_below((uint64_t)sets_now)], &data, random_below(1u << 30));
        ratios[q] = quad(&champion, &baseline, ns);
        theirs[q] = ns[0], ours[q] = ns[1];
    }
    if (!is_right(&champion, &data)) /* the very process that was timed */
        exit(FAILED);
    end(&champion);
    end(&baseline);
    forget(&data);
    return (struct at_shape){median(ratios, quads), median(theirs, quads), median(ours, quads)};
}

static void shuffle(int *order, int count)
{
    for (int i = 0; i < count; i++)
        order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int j = (int)random_below((uint64_t)i + 1), kept = order[i];
        order[i] = order[j], order[j] = kept;
    }
}

/* A pair spans all shapes; its value is the weighted mean of their medians. */
static double one_pair(int quads, struct at_shape *sums)
{
    int order[SHAPES];
    double total = 0, weights = 0;
    shuffle(order, SHAPES);
    for (int i = 0; i < SHAPES; i++) {
        struct at_shape found = pair_at(order[i], quads), *sum = &sums[order[i]];
        total += shapes[order[i]].weight * found.log_ratio;
        weights += shapes[order[i]].weight;
        sum->log_ratio += found.log_ratio, sum->baseline_ns += found.baseline_ns, sum->champion_ns += found.champion_ns;
    }
    return total / weights;
}

static int race(int pairs, int quads)
{
    struct at_shape sums[SHAPES] = {0};
    double values[MAX_PAIRS], mean = 0, squares = 0;
    printf("timing %d pairs of fresh processes, %d quads of 4 samples each, at %d shapes\n", pairs, quads, SHAPES);
    for (int p = 0; p < pairs; p++) {
        values[p] = one_pair(quads, sums);
        mean += values[p] / pairs;
        fprintf(stderr, "  pair %d of %d: %.3fx\n", p + 1, pairs, exp(values[p]));
    }
    for (int p = 0; p < pairs; p++)
        squares += (values[p] - mean) * (values[p] - mean);
    double half = t_quantile[pairs] * sqrt(squares / (pairs - 1) / pairs);
    for (int s = 0; s < SHAPES; s++)
        printf("  %s: %.4g ms against %.4g ms of %s, %.3fx (recorded: %.4g ms against %.4g ms of %s)\n",
               cases[shapes[s].check].size.name, sums[s].champion_ns / pairs / 1e6, sums[s].baseline_ns / pairs / 1e6,
               arms[shapes[s].arm].name, exp(sums[s].log_ratio / pairs), shapes[s].recorded_ns / 1e6,
               shapes[s].recorded_baseline_ns / 1e6, shapes[s].recorded_baseline);
    printf("here:    %.3fx [%.3f, %.3f] at %g %%\n", exp(mean), exp(mean - half), exp(mean + half), LEVEL_PERCENT);
    printf("claimed: %s\n%s", CLAIM, REMARK);
    int repeated = mean - half > 0;
    printf(repeated ? "REPEATED: faster than the baseline here too\n" : "NOT REPEATED: not clearly faster than the baseline here\n");
    return repeated ? REPEATED : NOT_REPEATED;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static void map_arena(int is_timed)
{
    for (int c = 0; c < CASES; c++) {
        size_t bytes = room_bytes(&cases[c].size);
        arena_bytes = bytes > arena_bytes ? bytes : arena_bytes;
    }
    for (int s = 0; is_timed && s < SHAPES; s++) {
        const struct size *size = &cases[shapes[s].check].size;
        size_t bytes = room_bytes(size) * (size_t)rotation(size);
        arena_bytes = bytes > arena_bytes ? bytes : arena_bytes;
    }
    arena = mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED)
        fail("no memory for the buffers");
}

static int usage(void)
{
    fprintf(stderr,
            "usage: bench [--check] [--pairs N] [--quads N] [--seed N]\n"
            "  --check    only compare with the recorded results\n"
            "  --pairs N  pairs of fresh processes, 2 to %d (8)\n"
            "  --quads N  A B B A quads per pair and shape, 1 to 64 (6)\n"
            "  --seed N   of order and places (the time)\n",
            MAX_PAIRS);
    return USAGE;
}

static int number(const char *text, long least, long most, int *into)
{
    char *rest = NULL;
    errno = 0;
    long value = text ? strtol(text, &rest, 10) : -1;
    *into = (int)value;
    return text && *text && !*rest && !errno && value >= least && value <= most;
}

/* Whether argument `*i` is option `name` with a number that may stand there, which is then consumed. */
static int option(int argc, char **argv, int *i, const char *name, long least, long most, int *into)
{
    return !strcmp(argv[*i], name) && *i + 1 < argc && number(argv[++*i], least, most, into);
}

int main(int argc, char **argv)
{
    int pairs = 8, quads = 6, only_check = 0, seed = (int)(time(NULL) & 0x7FFFFFFF), right = 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--check"))
            only_check = 1;
        else if (!option(argc, argv, &i, "--pairs", 2, MAX_PAIRS, &pairs) &&
                 !option(argc, argv, &i, "--quads", 1, 64, &quads) &&
                 !option(argc, argv, &i, "--seed", 0, 0x7FFFFFFF, &seed))
            return usage();
    }
    random_state = (uint64_t)seed;
    signal(SIGPIPE, SIG_IGN);
    map_arena(!only_check);
    printf("%s, champion of goal %s; seed %d\nchecking against float64\n", ENTRY, GOAL, seed);
    fflush(stdout);
    for (int a = 0; a < ARMS; a++)
        right &= checked(&arms[a]);
    if (!right)
        return FAILED;
    return only_check ? REPEATED : race(pairs, quads);
}
