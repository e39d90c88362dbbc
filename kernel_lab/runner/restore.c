/*
 * Restores a buffer from its origin between two calls. Part of the runner, and a library for runners in Python.
 *
 * After a cold restoration the buffer is in no cache, as it would be if nobody had touched it: streaming stores write past
 * the caches and evict what they held of it. After a warm one it is where the copy left it.
 */
#include <stdint.h>
#include <string.h>

typedef long long pair __attribute__((vector_size(16)));
typedef pair loose_pair __attribute__((aligned(4), may_alias));

void restore(char *to, const char *from, uint64_t bytes, int cold)
{
#if defined(__x86_64__)
    uint64_t head = -(uintptr_t)to % sizeof(pair);
    if (cold && bytes >= 2 * sizeof(pair)) {
        memcpy(to, from, head);
        for (; head + sizeof(pair) <= bytes; head += sizeof(pair)) {
            pair value = *(const loose_pair *)(from + head);
            __asm__ volatile("movntdq %1, %0" : "=m"(*(pair *)(to + head)) : "x"(value));
        }
        memcpy(to + head, from + head, bytes - head);
        __asm__ volatile("sfence" ::: "memory");
        return;
    }
#endif
    (void)cold;
    memcpy(to, from, bytes);
}
