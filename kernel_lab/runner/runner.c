/*
 * The runner: one process that holds one candidate and calls it.
 *
 * It speaks fixed-size little-endian messages over one SOCK_SEQPACKET socket (protocol.py is the other half and the
 * place where the layout is explained). It maps the parent's buffers between guard pages, loads the candidate from a
 * sealed memory file, calls it, times it, and reports. It holds no expected output and no secret. A candidate can subvert
 * anything in this process, so nothing here is proof: the parent trusts the buffers and its own clock.
 *
 * Order matters: limits and the seccomp filter are in place before the candidate is loaded, because loading runs
 * constructors.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "restore.c"

#define MAGIC 0x59415341u     /* "ASAY" */
#define MESSAGE_BYTES 131072  /* one request; protocol.py checks before it sends */
#define MAX_INTEGERS 20       /* pointers and axes of one call */
#define MAX_FLOATS 4
#define MAX_BUFFERS 16
#define MAX_SETS 4096
#define GUARD_BYTES (1 << 20) /* chosen: an overrun by a whole row still lands in it; address space is free */
#ifndef MADV_POPULATE_READ /* headers before glibc 2.35 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#define MAX_ROUNDS 64         /* protocol.py says why */
#define MAX_ATTEMPTS 6        /* chosen: the second attempt is long enough unless the clock of the machine jumps */

enum request { LOAD = 1, MAP, UNMAP, CALL, TIME, QUIT };
enum reply { HELLO = 100, LOADED, LOAD_FAILED, MAPPED, UNMAPPED, RETURNED, TIMED, FAULT, REFUSED, MARK };

struct header {
    uint32_t magic, kind, sequence, bytes;
};

/* A call through one prototype fits every kernel. On x86-64 (System V) and AArch64 (AAPCS64) integer and floating-point
 * arguments are assigned to their own registers independently, and stack slots are used in order once the registers are
 * full. Kernels take pointers and int64_t first and then at most four floats, which stay in registers; so the stack
 * holds integers only, and arguments beyond those that the kernel declares are never read. */
typedef void (*kernel)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       float, float, float, float);

struct region {
    char *reserved;
    size_t reserved_bytes;
};

#if defined(__SANITIZE_ADDRESS__)
/* Options are built in: the sanitizers read them from /proc/self/environ, which a sandbox may hide. Leaks are no concern
 * of a process that ends, and a symbolizer would be another program. Fresh memory is filled with large negative numbers,
 * so scratch that is read before it is written shows. The statuses are chosen: no shell, launcher or signal uses them. */
const char *__asan_default_options(void)
{
    return "exitcode=87:detect_leaks=0:symbolize=0:handle_segv=0:handle_sigbus=0:allocator_may_return_null=1:"
           "max_allocation_size_mb=1024:quarantine_size_mb=16:print_legend=0:"
           "max_malloc_fill_size=1073741824:malloc_fill_byte=254";
}

const char *__ubsan_default_options(void) { return "exitcode=88:halt_on_error=1:print_stacktrace=0"; }

/* A buffer of exactly the data's size, with the sanitizer's red zones around it: every set is placed at the end of its
 * pages (V7), so the data ends where the mapping does. */
struct exact {
    char *shared;
    size_t bytes;
    int writable;
};
#endif

/* What a buffer holds before every call. */
struct origin {
    struct region region;
    const char *from;
    char *to;
    uint64_t bytes;
};

struct set {
    int used;
#if defined(__SANITIZE_ADDRESS__)
    struct exact exact[MAX_BUFFERS];
#endif
    uint32_t regions, origins;
    struct region region[MAX_BUFFERS];
    struct origin origin[MAX_BUFFERS];
    int64_t integer[MAX_INTEGERS];
    uint64_t sample_calls; /* how many calls the last good sample that began its list with this set had */
};

struct wire_load {
    uint64_t nproc;
    uint32_t filter_bytes, entry_bytes;
};
struct wire_map {
    uint32_t set, buffers, axes, origins;
};
struct wire_buffer {
    uint32_t descriptor, writable;
    uint64_t file_offset, mapped_bytes, pointer_offset;
};
struct wire_origin {
    uint32_t buffer, descriptor;
    uint64_t file_offset, mapped_bytes, pointer_offset, data_bytes;
};
struct wire_call {
    uint32_t set, floats;
    float value[MAX_FLOATS];
};
struct wire_time {
    uint64_t min_sample_ns, pause_ns;
    uint32_t sets, floats;
    float value[MAX_FLOATS];
};
struct wire_loaded {
    uint64_t fp_before, fp_after;
};
struct wire_returned {
    uint64_t elapsed_ns, fp_before, fp_after, threads;
};
struct wire_timed {
    uint64_t calls, elapsed_ns, first_ns, run_delay_ns, involuntary_switches, migrated, turn;
};
struct wire_fault {
    uint64_t signal, address, private_bytes, read_clock;
};

static int channel;
static int tasks = -1; /* /proc/self/task, opened before the sandbox may close the way to it */
static int memory = -1; /* this process's statm, opened early for the fault handler */
static uint64_t page_bytes;
static kernel candidate;
static uint64_t clean_fp; /* the control word before anything of the candidate ran */
static struct set sets[MAX_SETS];
static char request_bytes[MESSAGE_BYTES];

/* ---- reports ---------------------------------------------------------------------------------------------------- */

static void report(uint32_t kind, uint32_t sequence, const void *payload, uint32_t bytes)
{
    struct header header = {MAGIC, kind, sequence, bytes};
    struct iovec parts[2] = {{&header, sizeof header}, {(void *)payload, bytes}};
    if (writev(channel, parts, 2) < 0)
        _exit(3);
}

static void refuse(uint32_t sequence, const char *why) { report(REFUSED, sequence, why, (uint32_t)strlen(why)); }

/* What RLIMIT_DATA counts: the sixth number of statm, in pages. Async-signal-safe: one read, no library. */
static uint64_t private_bytes(void)
{
    char text[128];
    ssize_t length = pread(memory, text, sizeof text - 1, 0);
    uint64_t number = 0;
    int field = 1;
    for (ssize_t i = 0; i < length && field <= 6; i++) {
        if (text[i] == ' ')
            field++;
        else if (field == 6 && text[i] >= '0' && text[i] <= '9')
            number = number * 10 + (uint64_t)(text[i] - '0');
    }
    return number * page_bytes;
}

/* The instruction that faulted is rdtsc or rdtscp, which touch no memory: it faulted because the counter is closed. */
static uint64_t read_clock(const siginfo_t *info, const void *context)
{
#if defined(__x86_64__)
    const ucontext_t *at = context;
    const unsigned char *code = (const unsigned char *)at->uc_mcontext.gregs[REG_RIP];
    return info->si_code == SI_KERNEL &&
           (memcmp(code, "\x0f\x31", 2) == 0 || memcmp(code, "\x0f\x01\xf9", 3) == 0);
#else
    (void)info, (void)context;
    return 0;
#endif
}

/* Async-signal-safe: one write. SA_RESETHAND has restored the default action, so the instruction faults again on
 * return and the process dies of its true signal. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    struct {
        struct header header;
        struct wire_fault fault;
    } message = {{MAGIC, FAULT, 0, sizeof(struct wire_fault)},
                 {(uint64_t)number, (uint64_t)(uintptr_t)info->si_addr, private_bytes(), read_clock(info, context)}};
    ssize_t ignored = write(channel, &message, sizeof message);
    (void)ignored;
}

static void watch_faults(void)
{
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

/* ---- what the process looks like ---------------------------------------------------------------------------------- */

static uint64_t fp_control(void)
{
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (uint64_t)x87 << 32 | (mxcsr & 0xFFC0u); /* the low six bits are sticky exception flags, not control */
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
#else
#error "the runner knows x86-64 and AArch64"
#endif
}

static void restore_fp_control(uint64_t word)
{
#if defined(__x86_64__)
    uint32_t mxcsr = (uint32_t)word;
    uint16_t x87 = (uint16_t)(word >> 32);
    __asm__ volatile("ldmxcsr %0" ::"m"(mxcsr));
    __asm__ volatile("fldcw %0" ::"m"(x87));
#else
    __asm__ volatile("msr fpcr, %0" ::"r"(word));
#endif
}

/* The parent reads the same clock. A system call: the library reads the time-stamp counter, which is closed here. */
static uint64_t now_ns(void)
{
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&t, &t) < 0 && errno == EINTR) {
    }
}

/* The second number of schedstat: time spent ready to run and not running. */
static uint64_t run_delay_of(const char *thread)
{
    char name[sizeof(struct dirent64) + 16], text[128];
    snprintf(name, sizeof name, "%s/schedstat", thread);
    int file = openat(tasks, name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    unsigned long long ran = 0, delayed = 0;
    sscanf(text, "%llu %llu", &ran, &delayed);
    return delayed;
}

/* Visits every thread of the process; the count is returned, the run delays are added up when asked for. */
static uint64_t visit_threads(uint64_t *run_delay_ns)
{
    char entries[4096];
    uint64_t count = 0;
    long length;
    lseek(tasks, 0, SEEK_SET);
    while ((length = syscall(SYS_getdents64, tasks, entries, sizeof entries)) > 0)
        for (long at = 0; at < length;) {
            struct dirent64 *entry = (struct dirent64 *)(entries + at);
            at += entry->d_reclen;
            if (entry->d_name[0] == '.')
                continue;
            count++;
            if (run_delay_ns)
                *run_delay_ns += run_delay_of(entry->d_name);
        }
    return count;
}

static uint64_t involuntary_switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_nivcsw;
}

/* ---- requests ----------------------------------------------------------------------------------------------------- */

/* One request, with the descriptors that came along. Returns its bytes; ends the process when the parent is gone. */
static size_t next_request(int *descriptors, int *count)
{
    char control[CMSG_SPACE(sizeof(int) * 4)] __attribute__((aligned(8)));
    struct iovec part = {request_bytes, sizeof request_bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t bytes = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    if (bytes < (ssize_t)sizeof(struct header))
        _exit(0);
    *count = 0;
    struct cmsghdr *extra = CMSG_FIRSTHDR(&message);
    if (extra && extra->cmsg_type == SCM_RIGHTS) {
        *count = (int)((extra->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(descriptors, CMSG_DATA(extra), (size_t)*count * sizeof(int));
    }
    return (size_t)bytes;
}

static int confine(const void *filter, uint32_t bytes)
{
    struct sock_fprog program = {.len = (unsigned short)(bytes / sizeof(struct sock_filter)), .filter = (void *)filter};
    if (bytes == 0)
        return 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* A candidate that reads the time-stamp counter dies of it, however the instruction was hidden from the disassembly: with
 * a clock it could tell a call that is checked from one that is timed. Threads inherit this. A kernel without the switch
 * leaves it to V0, which refuses the instruction. The sanitizers' allocator reads the counter itself, and nothing is timed
 * there. */
static void close_clock(void)
{
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
#endif
}

static void load(uint32_t sequence, const char *payload, int object)
{
    struct wire_load wire;
    memcpy(&wire, payload, sizeof wire);
    const char *filter = payload + sizeof wire;
    const char *entry = filter + wire.filter_bytes; /* ends in a zero byte */
    struct rlimit processes = {wire.nproc, wire.nproc};
    char path[64];
    if (wire.nproc && setrlimit(RLIMIT_NPROC, &processes) < 0)
        return refuse(sequence, "setrlimit(NPROC)");
    watch_faults();
    close_clock();
    if (confine(filter, wire.filter_bytes) < 0)
        return refuse(sequence, "seccomp");
    clean_fp = fp_control();
    snprintf(path, sizeof path, "/proc/self/fd/%d", object);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        candidate = (kernel)(uintptr_t)dlsym(library, entry);
    if (!library || !candidate) {
        const char *why = dlerror();
        why = why ? why : "the entry is a null symbol";
        return report(LOAD_FAILED, sequence, why, (uint32_t)strnlen(why, 4096));
    }
    close(object);
    report(LOADED, sequence, &(struct wire_loaded){clean_fp, fp_control()}, sizeof(struct wire_loaded));
}

/* Every page is present in this process's own page table before a clock starts. */
static void populate(char *bytes, size_t length, int writable)
{
    if (madvise(bytes, length, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
        return;
    for (size_t at = 0; at < length; at += 4096) { /* a kernel before 5.14 */
        volatile char *page = bytes + at;
        char kept = *page;
        if (writable)
            *page = kept;
    }
}

static int map_buffer(struct region *region, const struct wire_buffer *wire, const int *descriptors, int count)
{
    if (wire->descriptor >= (uint32_t)count)
        return -1;
    region->reserved_bytes = wire->mapped_bytes + 2 * GUARD_BYTES;
    region->reserved = mmap(NULL, region->reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region->reserved == MAP_FAILED)
        return -1;
    char *data = mmap(region->reserved + GUARD_BYTES, wire->mapped_bytes, PROT_READ | (wire->writable ? PROT_WRITE : 0),
                      MAP_SHARED | MAP_FIXED, descriptors[wire->descriptor], (off_t)wire->file_offset);
    if (data == MAP_FAILED)
        return -1;
    populate(data, wire->mapped_bytes, (int)wire->writable);
    return 0;
}

/* An origin is never writable here, and lies between guard pages like everything else. */
static int map_origin(struct set *set, struct origin *origin, const struct wire_origin *wire, const int *descriptors,
                      int count)
{
    struct wire_buffer place = {wire->descriptor, 0, wire->file_offset, wire->mapped_bytes, wire->pointer_offset};
    if (wire->buffer >= set->regions || map_buffer(&origin->region, &place, descriptors, count) < 0)
        return -1;
    origin->from = origin->region.reserved + GUARD_BYTES + wire->pointer_offset;
    origin->to = (char *)(uintptr_t)set->integer[wire->buffer];
    origin->bytes = wire->data_bytes;
    set->origins++;
    return 0;
}

/* One set of MAP: the addresses of its buffers, and where the next one begins; NULL with the reason when it cannot be. */
static const char *map_set(const char *payload, const int *descriptors, int count, uint64_t *address, const char **why)
{
    struct wire_map wire;
    struct wire_buffer buffer[MAX_BUFFERS];
    struct wire_origin origin;
    memcpy(&wire, payload, sizeof wire);
    *why = "map: too large";
    if (wire.set >= MAX_SETS || wire.buffers > MAX_BUFFERS || wire.buffers + wire.axes > MAX_INTEGERS ||
        wire.origins > wire.buffers)
        return NULL;
    struct set *set = &sets[wire.set];
    memset(set, 0, sizeof *set);
    memcpy(buffer, payload + sizeof wire, wire.buffers * sizeof *buffer);
    *why = "map: mmap";
    for (uint32_t i = 0; i < wire.buffers; i++) {
        if (map_buffer(&set->region[i], &buffer[i], descriptors, count) < 0)
            return NULL;
        address[i] = (uint64_t)(uintptr_t)(set->region[i].reserved + GUARD_BYTES);
        set->integer[i] = (int64_t)(address[i] + buffer[i].pointer_offset);
#if defined(__SANITIZE_ADDRESS__)
        set->exact[i] = (struct exact){(char *)(uintptr_t)set->integer[i],
                                       buffer[i].mapped_bytes - buffer[i].pointer_offset, (int)buffer[i].writable};
#endif
        set->regions++;
    }
    payload += sizeof wire + wire.buffers * sizeof *buffer;
    memcpy(set->integer + wire.buffers, payload, wire.axes * sizeof(int64_t));
    payload += wire.axes * sizeof(int64_t);
    *why = "map: origin";
    for (uint32_t i = 0; i < wire.origins; i++, payload += sizeof origin) {
        memcpy(&origin, payload, sizeof origin);
        if (map_origin(set, &set->origin[i], &origin, descriptors, count) < 0)
            return NULL;
    }
    set->used = 1;
    return payload;
}

/* As many sets as the message holds: a cold rotation has thousands, and a round trip costs more than a small mapping. */
static void map(uint32_t sequence, const char *payload, uint32_t bytes, const int *descriptors, int count)
{
    static uint64_t address[MESSAGE_BYTES / sizeof(struct wire_buffer)];
    const char *end = payload + bytes, *why = NULL;
    uint32_t addresses = 0;
    while (payload < end) {
        struct wire_map next;
        memcpy(&next, payload, sizeof next);
        payload = map_set(payload, descriptors, count, address + addresses, &why);
        if (!payload)
            return refuse(sequence, why);
        addresses += next.buffers;
    }
    report(MAPPED, sequence, address, addresses * (uint32_t)sizeof *address);
}

static void unmap(uint32_t sequence)
{
    for (struct set *set = sets; set < sets + MAX_SETS; set++) {
        for (uint32_t i = 0; set->used && i < set->regions; i++)
            munmap(set->region[i].reserved, set->region[i].reserved_bytes);
        for (uint32_t i = 0; set->used && i < set->origins; i++)
            munmap(set->origin[i].region.reserved, set->origin[i].region.reserved_bytes);
        set->used = 0;
    }
    report(UNMAPPED, sequence, NULL, 0);
}

static inline void invoke_on(const int64_t *a, const float *f)
{
    candidate(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15],
              a[16], a[17], a[18], a[19], f[0], f[1], f[2], f[3]);
}

#if defined(__SANITIZE_ADDRESS__)
static void invoke(const struct set *set, const float *f)
{
    int64_t integer[MAX_INTEGERS];
    memcpy(integer, set->integer, sizeof integer);
    for (uint32_t i = 0; i < set->regions; i++) {
        const struct exact *exact = &set->exact[i];
        integer[i] = (int64_t)(uintptr_t)memcpy(malloc(exact->bytes), exact->shared, exact->bytes);
    }
    invoke_on(integer, f);
    for (uint32_t i = 0; i < set->regions; i++) {
        const struct exact *exact = &set->exact[i];
        char *copy = (char *)(uintptr_t)integer[i];
        if (exact->writable)
            memcpy(exact->shared, copy, exact->bytes);
        free(copy);
    }
}
#else
static inline void invoke(const struct set *set, const float *f) { invoke_on(set->integer, f); }
#endif

/* More bytes than a hot rotation restores (schedule.py): what is restored then goes past the caches. */
#define HOT_BYTES (16u << 20)

static int restores_cold(const struct set *set, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < set->origins; i++)
        bytes += set->origin[i].bytes;
    return bytes * count > HOT_BYTES;
}

static void restore_set(const struct set *set, int cold)
{
    for (uint32_t i = 0; i < set->origins; i++)
        restore(set->origin[i].to, set->origin[i].from, set->origin[i].bytes, cold);
}

static void call(uint32_t sequence, const char *payload)
{
    struct wire_call wire;
    memcpy(&wire, payload, sizeof wire);
    if (!candidate || wire.set >= MAX_SETS || !sets[wire.set].used)
        return refuse(sequence, "call: nothing to call");
    restore_set(&sets[wire.set], 0);
    uint64_t before = now_ns();
    invoke(&sets[wire.set], wire.value);
    uint64_t elapsed = now_ns() - before;
    struct wire_returned reply = {elapsed, clean_fp, fp_control(), visit_threads(NULL)};
    restore_fp_control(clean_fp); /* the change is reported once, by the call that made it */
    report(RETURNED, sequence, &reply, sizeof reply);
}

/* `calls` calls over the sets from `at` on, between two marks and with no clock between them. Sets are restored before the
 * first mark, so those that have an origin are called once at most. The parent sleeps: a mark costs a copy, not a wake-up. */
static uint64_t timed_round(uint32_t sequence, const struct wire_time *wire, const uint32_t *numbers, uint32_t at,
                            uint64_t calls)
{
    int cold = restores_cold(&sets[numbers[at]], wire->sets);
    for (uint64_t i = 0; i < calls && sets[numbers[at]].origins; i++)
        restore_set(&sets[numbers[(at + i) % wire->sets]], cold);
    report(MARK, sequence, NULL, 0);
    uint64_t started = now_ns();
    for (uint64_t i = 0; i < calls; i++) {
        invoke(&sets[numbers[at]], wire->value);
        at = at + 1 == wire->sets ? 0 : at + 1;
    }
    uint64_t elapsed = now_ns() - started;
    report(MARK, sequence, NULL, 0);
    return elapsed;
}

/* One attempt at a sample: pause, one untimed call, then `calls` calls in one round, or in rounds over sets that are
 * restored. A candidate's time for one call is taken from the untimed call when `calls` is 0. */
static void attempt(uint32_t sequence, struct wire_timed *sample, const struct wire_time *wire, const uint32_t *numbers,
                    uint32_t *turn)
{
    uint64_t delay_before = 0, delay_after = 0;
    pause_ns(wire->pause_ns);
    restore_set(&sets[numbers[*turn]], restores_cold(&sets[numbers[*turn]], wire->sets));
    uint64_t started = now_ns();
    invoke(&sets[numbers[*turn]], wire->value);
    sample->first_ns = now_ns() - started;
    uint64_t round = sets[numbers[*turn]].origins ? wire->sets : UINT64_MAX;
    *turn = (*turn + 1) % wire->sets;
    if (sample->calls == 0)
        sample->calls = 1 + wire->min_sample_ns / (sample->first_ns + 1);
    if (round <= UINT64_MAX / MAX_ROUNDS && sample->calls > round * MAX_ROUNDS)
        sample->calls = round * MAX_ROUNDS;
    visit_threads(&delay_before);
    uint64_t switches = involuntary_switches();
    int cpu = sched_getcpu();
    sample->elapsed_ns = 0;
    for (uint64_t left = sample->calls; left > 0;) {
        uint64_t calls = left < round ? left : round;
        sample->elapsed_ns += timed_round(sequence, wire, numbers, *turn, calls);
        *turn = (uint32_t)((*turn + calls) % wire->sets);
        left -= calls;
    }
    sample->migrated = sched_getcpu() != cpu;
    sample->involuntary_switches = involuntary_switches() - switches;
    visit_threads(&delay_after);
    sample->run_delay_ns = delay_after > delay_before ? delay_after - delay_before : 0;
}

/* As many calls as take a fifth longer than the sample must, at the pace of the last attempt. */
static uint64_t calls_for(const struct wire_timed *sample, uint64_t min_sample_ns)
{
    return 1 + (uint64_t)(1.2 * (double)sample->calls * (double)min_sample_ns / (double)(sample->elapsed_ns + 1));
}

/* The number of calls is decided before the clock starts. When the untimed call was slower than the timed ones (a cold
 * first touch) the sample comes out short: it is thrown away and taken again with more calls. */
static void time_calls(uint32_t sequence, const char *payload)
{
    static uint32_t turn; /* the rotation goes on where the last sample ended, so a cold set stays cold */
    static uint32_t numbers[MAX_SETS];
    struct wire_time wire;
    struct wire_timed sample = {0};
    memcpy(&wire, payload, sizeof wire);
    if (!candidate || wire.sets == 0 || wire.sets > MAX_SETS)
        return refuse(sequence, "time: nothing to time");
    memcpy(numbers, payload + sizeof wire, wire.sets * sizeof *numbers);
    for (uint32_t i = 0; i < wire.sets; i++)
        if (numbers[i] >= MAX_SETS || !sets[numbers[i]].used)
            return refuse(sequence, "time: no such set");
    turn %= wire.sets;
    sample.calls = sets[numbers[0]].sample_calls;
    for (int i = 0; i < MAX_ATTEMPTS && sample.elapsed_ns < wire.min_sample_ns; i++) {
        if (i > 0)
            sample.calls = calls_for(&sample, wire.min_sample_ns);
        attempt(sequence, &sample, &wire, numbers, &turn);
    }
    int far_over = sample.elapsed_ns > 2 * wire.min_sample_ns;
    sets[numbers[0]].sample_calls = far_over ? calls_for(&sample, wire.min_sample_ns) : sample.calls;
    sample.turn = turn;
    restore_fp_control(clean_fp);
    report(TIMED, sequence, &sample, sizeof sample);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: runner CHANNEL_FD TASK_DIR_FD|-1 (started by kernel_lab.runner.process)\n");
        return 2;
    }
    page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    channel = atoi(argv[1]);
    tasks = atoi(argv[2]);
    if (tasks < 0)
        tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tasks < 0) {
        perror("/proc/self/task");
        return 2;
    }
    char own[32];
    snprintf(own, sizeof own, "%d/statm", getpid());
    memory = openat(tasks, own, O_RDONLY | O_CLOEXEC);
    report(HELLO, 0, &(uint64_t){(uint64_t)getpid()}, sizeof(uint64_t));
    for (;;) {
        int descriptors[4], count;
        struct header header;
        size_t bytes = next_request(descriptors, &count);
        const char *payload = request_bytes + sizeof header;
        memcpy(&header, request_bytes, sizeof header);
        if (header.magic != MAGIC || bytes != sizeof header + header.bytes)
            return 3;
        switch (header.kind) {
        case LOAD: load(header.sequence, payload, count ? descriptors[0] : -1); break;
        case MAP: map(header.sequence, payload, header.bytes, descriptors, count); break;
        case UNMAP: unmap(header.sequence); break;
        case CALL: call(header.sequence, payload); break;
        case TIME: time_calls(header.sequence, payload); break;
        case QUIT: return 0;
        default: refuse(header.sequence, "unknown request");
        }
        if (header.kind == MAP)
            for (int i = 0; i < count; i++)
                close(descriptors[i]);
    }
}
