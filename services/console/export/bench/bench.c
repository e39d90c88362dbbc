/* Repeats a claim of Assay with nothing of Assay: gcc, libc and the files beside this one.
 *
 * It checks the champion and its baseline against float64 results that were recorded with it, then times them as the claim
 * was timed (docs/design/measurement.md): two fresh processes per pair on the same shared buffers, never at the same time,
 * interleaved A B B A, at least 10 ms a sample, a Student-t interval over the pairs. `claim.h` has the tables.
 *
 * Exit status: 0 repeated, 1 wrong results or a kernel that ended, 2 usage, 5 correct but not faster here.
 */
#include "arm.h"

#include <math.h>
#include <sys/mman.h>

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

/* Whatever the outputs hold before: nothing in a fresh process, other answers in one that was timed. */
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
        lay_out(&cases[c].size, 1, 1);
        poison(&sets[0]);
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
    lay_out(size, rotation(size), SIDES);
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

/* Shared memory for one set of every case, or for the rotations of every timed shape. */
static void map_arena(int is_timed)
{
    if (arena)
        munmap(arena, arena_bytes);
    arena_bytes = 0;
    for (int c = 0; c < CASES; c++) {
        size_t bytes = room_bytes(&cases[c].size, 1);
        arena_bytes = bytes > arena_bytes ? bytes : arena_bytes;
    }
    for (int s = 0; is_timed && s < SHAPES; s++) {
        const struct size *size = &cases[shapes[s].check].size;
        size_t bytes = room_bytes(size, SIDES) * (size_t)rotation(size);
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
    map_arena(0); /* arms touch every page of it: small while results are checked */
    printf("%s, champion of goal %s; seed %d\nchecking against float64\n", ENTRY, GOAL, seed);
    fflush(stdout);
    for (int a = 0; a < ARMS; a++)
        right &= checked(&arms[a]);
    if (!right)
        return FAILED;
    if (only_check)
        return REPEATED;
    map_arena(1);
    return race(pairs, quads);
}
