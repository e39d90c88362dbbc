/*
 * Starts one program under limits, and lets nothing of it survive. Written in C because a Python interpreter takes longer
 * to start than everything else in a sandbox together.
 *
 *   launch [--rlimit RESOURCE VALUE]... [--landlock FD [--tasks FD]] [--seccomp FD] [--supervise] -- PROGRAM ARGUMENT...
 *
 * --supervise stays behind as the parent and reaper of everything that the program starts: when the program ends, or the
 * launcher is told to end (SIGTERM, also sent by the kernel when the launcher's own parent dies), every descendant is
 * killed and reaped. It stands in for a pid namespace where there is none, and waits for the end of one where there is.
 * The exit status is the program's, or 128 + its signal, as a shell and bwrap have it. Without --supervise the launcher
 * becomes the program.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CANNOT_START 125 /* the status of env(1) and timeout(1) for "the tool itself failed" */
#define MAX_CHILDREN 4096

static int landlock = -1, seccomp = -1, tasks = -1, supervise;

static void fail(const char *what)
{
    fprintf(stderr, "launch: %s: %s\n", what, strerror(errno));
    _exit(CANNOT_START);
}

static void limit(const char *resource, const char *value)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"data", RLIMIT_DATA},     {"stack", RLIMIT_STACK},   {"fsize", RLIMIT_FSIZE}, {"cpu", RLIMIT_CPU},
                 {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC},   {"core", RLIMIT_CORE},   {"memlock", RLIMIT_MEMLOCK},
                 {"msgqueue", RLIMIT_MSGQUEUE}};
    rlim_t amount = strtoull(value, NULL, 10);
    struct rlimit both = {amount, amount};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(resource, known[i].name)) {
            struct rlimit now;
            getrlimit(known[i].number, &now);
            if (both.rlim_max > now.rlim_max) /* only root may raise it: keep the stricter one that is there */
                both.rlim_cur = both.rlim_max = now.rlim_max;
            if (setrlimit(known[i].number, &both) < 0)
                fail(resource);
            return;
        }
    errno = EINVAL;
    fail(resource);
}

/* A process may look at its own threads. The rule is for the directory that `tasks` holds open, so it needs no path. */
static void allow_own_threads(void)
{
    struct landlock_path_beneath_attr rule = {
        .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR};
    int directory = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    if (directory < 0 || dup2(directory, tasks) < 0)
        fail("/proc/self/task");
    close(directory);
    rule.parent_fd = tasks;
    if (syscall(SYS_landlock_add_rule, landlock, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        fail("landlock_add_rule");
}

static void install_filter(void)
{
    static struct sock_filter filter[4096];
    ssize_t bytes = pread(seccomp, filter, sizeof filter, 0);
    struct sock_fprog program = {.len = (unsigned short)(bytes / (ssize_t)sizeof *filter), .filter = filter};
    if (bytes <= 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        fail("seccomp");
}

static void become(char **argv)
{
    if (landlock >= 0 || seccomp >= 0)
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
            fail("no_new_privs");
    if (landlock >= 0) {
        if (tasks >= 0)
            allow_own_threads();
        if (syscall(SYS_landlock_restrict_self, landlock, 0) < 0)
            fail("landlock_restrict_self");
        close(landlock);
    }
    if (seccomp >= 0)
        install_filter();
    execv(argv[0], argv);
    fail(argv[0]);
}

/* Kills every direct child; orphans of theirs become ours (we are their subreaper) and are found in the next round. */
static int kill_children(void)
{
    char name[64], list[MAX_CHILDREN * 8];
    snprintf(name, sizeof name, "/proc/self/task/%d/children", getpid());
    int file = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, list, sizeof list - 1);
    if (file >= 0)
        close(file);
    list[length > 0 ? length : 0] = 0;
    int killed = 0;
    for (char *at = list, *next; *at; at = next) {
        long child = strtol(at, &next, 10);
        if (next == at)
            break;
        kill((pid_t)child, SIGKILL);
        killed++;
    }
    return killed;
}

static void sweep(pid_t program)
{
    kill(-program, SIGKILL); /* its group at once; what left the group is found below */
    kill(program, SIGKILL);
    for (;;) {
        kill_children();
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD)
            return;
    }
}

/* Waits until the program ends or a request to end arrives; signals are blocked and taken one at a time. */
static int watch(pid_t program, const sigset_t *signals)
{
    for (;;) {
        int status;
        if (sigwaitinfo(signals, NULL) != SIGCHLD)
            return 128 + SIGKILL;
        pid_t ended;
        while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
            if (ended == program)
                return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static int run_supervised(char **argv)
{
    sigset_t signals, before;
    pid_t parent = getppid(), self = getpid();
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
        fail("prctl");
    if (getppid() != parent)
        return CANNOT_START;
    pid_t program = fork();
    if (program < 0)
        fail("fork");
    if (program == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        if (getppid() != self)
            _exit(CANNOT_START);
        sigprocmask(SIG_SETMASK, &before, NULL);
        become(argv);
    }
    if (syscall(SYS_close_range, 3, ~0U, 0) < 0) /* an end of a channel kept here would hide the program's death */
        for (int i = 3; i < 1024; i++)
            close(i);
    int status = watch(program, &signals);
    sweep(program);
    return status;
}

int main(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strcmp(argv[i], "--supervise"))
            supervise = 1;
        else if (!strcmp(argv[i], "--rlimit") && i + 2 < argc)
            limit(argv[i + 1], argv[i + 2]), i += 2;
        else if (!strcmp(argv[i], "--landlock") && i + 1 < argc)
            landlock = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--tasks") && i + 1 < argc)
            tasks = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--seccomp") && i + 1 < argc)
            seccomp = atoi(argv[++i]);
        else {
            fprintf(stderr, "launch: unknown option %s\n", argv[i]);
            return CANNOT_START;
        }
    }
    if (i + 1 >= argc)
        return CANNOT_START;
    if (supervise)
        return run_supervised(argv + i + 1);
    become(argv + i + 1);
}
