/* An arm: a process of its own that holds one kernel and calls it. */
#ifndef ASSAY_ARM_H
#define ASSAY_ARM_H
#include "data.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { MAX_ATTEMPTS = 6, PATIENCE_MS = 120000 };
static const uint64_t MIN_SAMPLE_NS = 10000000, PAUSE_NS = 5000000;

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
    struct sample said = {0};
    while (write(answers, &said, sizeof said) == sizeof said && read(orders, &order, sizeof order) == sizeof order) {
        said = (struct sample){0};
        if (order.what == TIME)
            said = take_sample(run);
        else
            call_kernel(run, sets[order.set].at, shape_now);
    }
    _exit(0);
}

/* The next word of an arm. One that ends or keeps silent ends the benchmark. */
static struct sample awaited(struct process *process)
{
    struct sample sample;
    struct pollfd answer = {process->answers, POLLIN, 0};
    int status = 0;
    if (poll(&answer, 1, PATIENCE_MS) > 0 && read(process->answers, &sample, sizeof sample) == sizeof sample)
        return sample;
    pid_t ended = 0;
    for (int i = 0; i < 50 && !ended; i++) { /* five seconds for a process that is ending */
        ended = waitpid(process->pid, &status, WNOHANG);
        if (!ended)
            pause_ns(100000000);
    }
    if (ended == process->pid && WIFSIGNALED(status))
        fprintf(stderr, "bench: %s was ended by signal %d (%s) at %s\n", process->arm->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)), shape_now->name);
    else
        fprintf(stderr, "bench: %s gave no answer at %s\n", process->arm->name, shape_now->name);
    kill(process->pid, SIGKILL);
    exit(FAILED);
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
    awaited(&process); /* it has touched every page: from here on only a kernel writes */
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
    if (write(process->orders, &order, sizeof order) != sizeof order)
        fprintf(stderr, "bench: %s takes no orders\n", process->arm->name);
    return awaited(process);
}

#endif
