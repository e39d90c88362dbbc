"""Seccomp filters as BPF bytes: what a program may ask of the kernel, with the reason where it is odd."""

import errno
import tempfile
from collections.abc import Iterable
from functools import cache

import pyseccomp
from pyseccomp import EQ, MASKED_EQ, Arg

CLONE_THREAD = 0x00010000
MAP_SHARED, MAP_ANONYMOUS = 0x01, 0x20
O_ACCMODE, O_CREAT, O_TRUNC, O_TMPFILE = 0o3, 0o100, 0o1000, 0o20000000  # the last without its O_DIRECTORY bit
SIGABRT = 6
LIBC_SIGNALS = (32, 33)
"""libc installs its handlers of cancellation and setuid when the first thread starts."""

RUNNER_ALLOWED = (
    # memory (mmap has its own rule)
    *("brk", "munmap", "mprotect", "mremap", "madvise"),
    # the protocol channel, standard output, files that are open already
    *("read", "write", "readv", "writev", "pread64", "recvmsg", "close", "lseek", "fstat", "newfstatat", "stat"),
    *("lstat", "statx", "access", "faccessat", "faccessat2", "readlink", "readlinkat", "getdents64", "fcntl"),
    # threads and waiting
    *("futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "set_tid_address", "sched_yield"),
    *("sched_getaffinity", "sched_setaffinity", "nanosleep", "clock_nanosleep", "restart_syscall", "poll", "ppoll"),
    # signals: a handler may return and a mask may change, but nobody installs a handler after the runner did
    *("rt_sigreturn", "rt_sigprocmask", "sigaltstack"),
    # asking
    *("clock_gettime", "clock_getres", "gettimeofday", "time", "getcpu", "getrusage", "times", "sysinfo", "uname"),
    *("getpid", "gettid", "getrandom", "getuid", "geteuid", "getgid", "getegid", "get_mempolicy", "arch_prctl"),
    # ending
    *("exit", "exit_group"),
)

SANITIZER_ALLOWED = ("sigaltstack", "rt_sigprocmask", "pipe", "pipe2")
"""What the sanitizers ask for when a thread starts, and when they look whether memory that they report is there."""

COMPILER_DENIED = (
    *("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendto", "sendmsg", "sendmmsg"),
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "pidfd_open", "pidfd_send_signal", "kcmp"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd"),
    *("mount", "umount2", "move_mount", "open_tree", "fsopen", "fsmount", "fspick", "mount_setattr", "pivot_root"),
    *("chroot", "unshare", "setns", "keyctl", "add_key", "request_key", "init_module", "finit_module"),
    *("delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct", "quotactl"),
    *("name_to_handle_at", "open_by_handle_at", "memfd_create", "memfd_secret", "personality", "syslog", "iopl"),
    *("ioperm", "modify_ldt", "lookup_dcookie", "fanotify_init", "seccomp", "clock_settime", "settimeofday"),
    *("adjtimex", "clock_adjtime", "sethostname", "setdomainname", "mq_open", "msgget", "semget", "shmget"),
    # abort(3) needs tgkill; under a Landlock without signal scopes that is all that can reach a neighbour
    *("kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "mknod", "mknodat", "vmsplice"),
)


@cache
def runner_filter(own_pid: int | None, sanitizes: bool = False) -> bytes:
    """What a runner may do once it holds a candidate; anything else ends it with SIGSYS.

    `own_pid` bounds abort(3) to the process itself; None where a pid namespace does that.
    """
    rules = pyseccomp.SyscallFilter(pyseccomp.KILL_PROCESS)
    _allow(rules, RUNNER_ALLOWED)
    _allow_private_memory(rules)
    _allow_reading(rules)
    rules.add_rule(pyseccomp.ALLOW, "clone", Arg(0, MASKED_EQ, CLONE_THREAD, CLONE_THREAD))
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags lie in memory: libc falls back to clone
    rules.add_rule(pyseccomp.ALLOW, "prlimit64", Arg(0, EQ, 0))
    rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "prctl")  # libgomp names its threads; nothing depends on it
    rules.add_rule(pyseccomp.ERRNO(errno.ENOTTY), "ioctl")  # stdio asks whether it writes to a terminal
    if sanitizes:
        _allow(rules, SANITIZER_ALLOWED)
    for number in LIBC_SIGNALS:
        rules.add_rule(pyseccomp.ALLOW, "rt_sigaction", Arg(0, EQ, number))
    myself = () if own_pid is None else (Arg(0, EQ, own_pid),)
    rules.add_rule(pyseccomp.ALLOW, "tgkill", *myself, Arg(2, EQ, SIGABRT))
    return _bytes_of(rules)


@cache
def compiler_filter() -> bytes:
    """What a compiler has no use for is answered with EPERM; fork, exec and writing stay."""
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in _known(COMPILER_DENIED):
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
    return _bytes_of(rules)


def _allow(rules: pyseccomp.SyscallFilter, names: Iterable[str]) -> None:
    for name in _known(names):
        rules.add_rule(pyseccomp.ALLOW, name)


def _allow_private_memory(rules: pyseccomp.SyscallFilter) -> None:
    """RLIMIT_DATA counts private memory only, so memory that is shared and anonymous is refused."""
    both = MAP_SHARED | MAP_ANONYMOUS
    for kind in (0, MAP_SHARED, MAP_ANONYMOUS):
        rules.add_rule(pyseccomp.ALLOW, "mmap", Arg(3, MASKED_EQ, both, kind))


def _allow_reading(rules: pyseccomp.SyscallFilter) -> None:
    """Files open for reading only; the file system that the sandbox shows holds nothing of value."""
    writing = O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE
    for name, flags in (("open", 1), ("openat", 2)):
        if _known((name,)):
            rules.add_rule(pyseccomp.ALLOW, name, Arg(flags, MASKED_EQ, writing, 0))


def _known(names: Iterable[str]) -> list[str]:
    """Those that this architecture has (AArch64 has no `open`, old libraries no `futex_waitv`)."""
    return [name for name in names if _number(name) >= 0]


def _number(name: str) -> int:
    try:
        return int(pyseccomp.resolve_syscall(pyseccomp.system_arch(), name))
    except ValueError:
        return -1


def _bytes_of(rules: pyseccomp.SyscallFilter) -> bytes:
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
