// SPDX-License-Identifier: MIT OR GPL-2.0
//
// The recorder's part inside the kernel. `cargo xtask bpf` compiles it to capture.bpf.o, which is committed.
//
// Threads of the recorded processes are told from all others here, so that nobody else's switches use the rings. At a
// switch the registers of the thread that leaves tell which system call it is in and with which arguments, so that no
// event at the calls themselves is needed. Its stack is read while it is still current; words that are neither
// addresses of code nor of the stack are cleared before anything is handed on, and what is left goes to the recorder
// once for each hash of its code addresses.
//
// Records have the frame of perf's samples, so that rings of both kinds are merged and read alike; the identifiers are
// those of src/sys/linux/bpf/record.rs. Numbers are in the machine's order.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define __uint(name, value) int(*name)[value]
#define __type(name, type) type *name

enum { HASH = 1, ARRAY = 2, PERCPU_ARRAY = 6, LRU_HASH = 9, RINGBUF = 27 };

struct task_struct;
struct pt_regs;
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u32 (*const get_cpu)(void) = (void *)8;
static u64 (*const get_pid_tgid)(void) = (void *)14;
static long (*const get_stack)(void *ctx, void *buffer, u32 size, u64 flags) = (void *)67;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static u64 (*const ringbuf_query)(void *ring, u64 flags) = (void *)134;
static struct pt_regs *(*const task_pt_regs)(struct task_struct *task) = (void *)175;

// What is read of the kernel's structures; the loader puts in where the fields are on the kernel that runs.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs {
    unsigned long bp, di, si, dx, ip, sp, cs, orig_ax;
};
typedef struct {
    int counter;
} atomic_t;
struct signal_struct {
    atomic_t live;
};
struct mm_struct {
    unsigned long start_code, end_code;
};
struct task_struct {
    s32 pid, tgid;
    unsigned int __state;
    struct signal_struct *signal;
    struct mm_struct *mm;
};
#pragma clang attribute pop

// Settings of the recorder, put in before the program is loaded.
const volatile u32 stack_words = 128;
const volatile u32 ring_mask = 0;
// Bytes in a ring that are worth waking the recorder for.
const volatile u64 wake_bytes = 1 << 20;
// One in so many futex calls that woke nobody is told.
const volatile u32 zero_period = 16;
// sched_switch hands over the state of who leaves (Linux 5.18).
const volatile u8 state_is_given = 1;
// Calls that block by their nature, a bit each: the program's side says why, so that no kernel stack is needed.
const volatile u64 blocking_calls[16] = {};

enum {
    MAX_WORDS = 512,
    CHUNK = 16,
    MAX_RANGES = 256,
    MAX_MORE = 16,
    MAX_FRAMES = 48,
    PAGES = 1024,
    PAGE_BITS = 12,
    USER_CODE = 0x33,
    CALL_POLL = 7,
    CALL_MMAP = 9,
    CALL_MPROTECT = 10,
    CALL_SELECT = 23,
    CALL_YIELD = 24,
    CALL_FUTEX = 202,
    CALL_CLOCK_NANOSLEEP = 230,
    CALL_PSELECT6 = 270,
    CALL_PPOLL = 271,
    CALL_PKEY_MPROTECT = 329,
    PROT_EXEC = 4,
    EAGAIN = 11,
    WAKE_EVERY = 64,
};
#define STACK_WINDOW (8ull << 20)

enum record {
    R_OUT = 1,
    R_IN = 2,
    R_WAKING = 3,
    R_FUTEX = 4,
    R_CALL = 5,
    R_USER_STACK = 6,
    R_KERNEL_STACK = 7,
    R_LOST = 8,
};
#define IDENTIFIER(kind) (0xb9f0000000000000ull | (kind))

struct head {
    u32 type;
    u16 misc, size;
    u64 id;
    u32 pid, tid;
    u64 time;
};

struct out {
    struct head head;
    u64 user, kernel;
    u64 addr;
    u32 op, value;
    u32 next;
    u16 cpu;
    u8 state, pad;
    s32 call;
    u32 pad2;
};

struct in {
    struct head head;
    u32 cpu, pad;
};

struct waking {
    struct head head;
    u32 target, cpu;
};

struct futex {
    struct head head;
    u64 user, addr;
    u32 op, value;
    s32 result;
    u32 cpu;
};

struct call {
    struct head head;
    u64 user;
    s32 call;
    u32 cpu;
};

struct user_stack {
    struct head head;
    u64 hash;
    u64 abi, fp, sp, ip;
    u64 bytes;
    u64 words[MAX_WORDS + 1];
};

struct kernel_stack {
    struct head head;
    u64 hash;
    u64 count;
    u64 frames[MAX_FRAMES];
};

struct lost {
    struct head head;
    u64 count;
    u32 cpu, pad;
};

// Executable memory of a process, from and to.
struct space {
    u64 count;
    u64 ranges[2 * MAX_RANGES];
};

// What the recorder learnt of later: what the kernel mapped by itself when the process executed a program.
struct more {
    u64 count;
    u64 ranges[2 * MAX_MORE];
};

struct cpu {
    u64 records;
    u64 zeros;
    u64 lost;
    u64 lost_told;
    u64 runs;
    u64 measured_ns;
    s32 in_interrupt;
    // Who has the CPU by the last switch or call that was seen.
    u32 running;
};

// Recorded processes by thread group.
struct {
    __uint(type, HASH);
    __uint(max_entries, 1024);
    __type(key, u32);
    __type(value, struct space);
} groups SEC(".maps");

struct {
    __uint(type, HASH);
    __uint(max_entries, 1024);
    __type(key, u32);
    __type(value, struct more);
} mores SEC(".maps");

// Threads that slept in the call that they are in, and whose call is told therefore.
struct {
    __uint(type, LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, u32);
    __type(value, u8);
} told SEC(".maps");

// Hashes of stacks that the recorder has.
struct {
    __uint(type, LRU_HASH);
    __uint(max_entries, 32768);
    __type(key, u64);
    __type(value, u8);
} seen SEC(".maps");

struct {
    __uint(type, PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct cpu);
} cpus SEC(".maps");

// Pages that were looked up: whose, when, which, and whether it is executable.
struct pages {
    u64 entries[PAGES];
};
struct {
    __uint(type, PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct pages);
} page_cache SEC(".maps");

// One for each program that needs it: one of them may be preempted, and no program runs twice on a CPU.
struct {
    __uint(type, PERCPU_ARRAY);
    __uint(max_entries, 2);
    __type(key, u32);
    __type(value, struct user_stack);
} scratch SEC(".maps");

struct {
    __uint(type, PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct kernel_stack);
} kernel_scratch SEC(".maps");

#define RING(name)                                                                                                     \
    struct {                                                                                                           \
        __uint(type, RINGBUF);                                                                                         \
        __uint(max_entries, 4096);                                                                                     \
    } name SEC(".maps")
RING(ring0);
RING(ring1);
RING(ring2);
RING(ring3);
RING(ring4);
RING(ring5);
RING(ring6);
RING(ring7);

// Changes whenever executable memory does.
u64 epoch = 1;
// Processes that did not fit into the map.
u64 groups_lost = 0;

INLINE struct cpu *this_cpu(void)
{
    u32 zero = 0;
    return map_lookup(&cpus, &zero);
}

INLINE struct space *space_of(u32 tgid)
{
    return map_lookup(&groups, &tgid);
}

INLINE void fill_head(struct head *head, enum record kind, u32 size, u32 pid, u32 tid, u64 time)
{
    head->type = 9;
    head->misc = 0;
    head->size = size;
    head->id = IDENTIFIER(kind);
    head->pid = pid;
    head->tid = tid;
    head->time = time;
}

#define PUT(ring)                                                                                                      \
    {                                                                                                                  \
        u64 flags = 1;                                                                                                 \
        if (ask && ringbuf_query(&ring, 0) >= wake_bytes)                                                              \
            flags = 2;                                                                                                 \
        failed = ringbuf_output(&ring, data, size, flags);                                                             \
        break;                                                                                                         \
    }

// The ring of this CPU takes a record, and wakes the recorder now and then if much is in it.
static __attribute__((noinline)) long put(void *data, u64 size)
{
    u32 number = get_cpu();
    struct cpu *cpu = this_cpu();
    if (!cpu || !data)
        return -1;
    bool ask = cpu->records++ % WAKE_EVERY == 0;
    long failed = 0;
    switch (number & ring_mask & 7) {
    case 0: PUT(ring0)
    case 1: PUT(ring1)
    case 2: PUT(ring2)
    case 3: PUT(ring3)
    case 4: PUT(ring4)
    case 5: PUT(ring5)
    case 6: PUT(ring6)
    default: PUT(ring7)
    }
    if (failed)
        cpu->lost++;
    return failed;
}

#define EMIT(record) put(&(record), sizeof(record))

// Before a record that could be read as if nothing were missing, says how many are.
INLINE void tell_lost(struct cpu *cpu, u64 time)
{
    if (cpu->lost == cpu->lost_told)
        return;
    u64 lost = cpu->lost;
    struct lost record = {};
    fill_head(&record.head, R_LOST, sizeof(record), 0, 0, time);
    record.count = lost - cpu->lost_told;
    record.cpu = get_cpu();
    if (!EMIT(record))
        cpu->lost_told = lost;
}

INLINE u64 mix(u64 hash, u64 word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

// Whether code is on a page: a function of its own, which the verifier checks once.
__attribute__((noinline)) int is_code(u32 tgid, u64 addr)
{
    struct space *space = space_of(tgid);
    if (!space)
        return 0;
    for (u64 i = 0; i < MAX_RANGES; i++) {
        if (i >= space->count)
            break;
        if (addr >= space->ranges[2 * i] && addr < space->ranges[2 * i + 1])
            return 1;
    }
    struct more *more = map_lookup(&mores, &tgid);
    if (!more)
        return 0;
    for (u64 i = 0; i < MAX_MORE; i++)
        if (i < more->count && addr >= more->ranges[2 * i] && addr < more->ranges[2 * i + 1])
            return 1;
    return 0;
}

// Clears words that are neither code nor stack, and takes code into the hash: so many words from one on, in a function
// of its own, which the verifier checks once.
__attribute__((noinline)) int scan(u32 which, u32 tgid, u32 from)
{
    u32 zero = 0;
    struct user_stack *stack = map_lookup(&scratch, &which);
    struct pages *pages = map_lookup(&page_cache, &zero);
    if (!stack || !pages || from > MAX_WORDS - CHUNK)
        return 0;
    // Of whose memory at what time a page was looked up: the upper 28 bits of a key.
    u64 generation = (mix(mix(0, epoch), tgid) >> 36) << 36;
    u64 sp = stack->sp, count = stack->bytes / 8, hash = stack->hash;
    for (u32 i = 0; i < CHUNK; i++) {
        if (from + i >= count)
            break;
        u64 word = stack->words[from + i], kept = 0;
        if (word >> 47 == 0 && word >> PAGE_BITS != 0) {
            u64 page = word >> PAGE_BITS;
            u64 *slot = &pages->entries[(page ^ page >> 10) % PAGES];
            u64 key = generation | page << 1, found = *slot;
            if ((found & ~1ull) != key) {
                found = key | (is_code(tgid, word) & 1);
                *slot = found;
            }
            if (found & 1) {
                kept = word;
                hash = mix(hash, word + from + i);
            } else if (word - sp < STACK_WINDOW) {
                kept = word;
            }
        }
        stack->words[from + i] = kept;
    }
    stack->hash = hash;
    return 0;
}

// The hash of the user stack of the running thread; the stack goes to the recorder if that has it not yet. 0 if there
// is none that can be read.
INLINE u64 user_stack(struct pt_regs *regs, u32 tgid, u32 tid, u64 time, u32 which)
{
    if (regs->cs != USER_CODE)
        return 0;
    struct user_stack *stack = map_lookup(&scratch, &which);
    if (!stack)
        return 0;
    u64 sp = regs->sp, fp = regs->bp, ip = regs->ip;
    u32 words = stack_words;
    if (words > MAX_WORDS)
        words = MAX_WORDS;
    // A stack may end within what is asked for: the rest is read only if the page goes on.
    u32 near = (4096 - (sp & 4095)) / 8;
    if (near > words)
        near = words;
    if (near > MAX_WORDS)
        return 0;
    u32 count = 0;
    if (near == 0 || read_user(stack->words, near * 8, (void *)sp) == 0)
        count = near;
    u32 far = words - near;
    if (count == near && far > 0 && far <= MAX_WORDS && near + far <= MAX_WORDS && near < MAX_WORDS) {
        u32 bytes = far * 8;
        if (bytes <= (MAX_WORDS - near) * 8 && bytes <= 4096 &&
            read_user(&stack->words[near], bytes, (void *)(sp + near * 8)) == 0)
            count = words;
    }
    if (count > MAX_WORDS)
        return 0;
    stack->sp = sp;
    stack->bytes = count * 8;
    stack->hash = mix(mix(0, ip), fp - sp < STACK_WINDOW ? fp - sp : 0);
    for (u32 from = 0; from < MAX_WORDS; from += CHUNK) {
        if (from >= count)
            break;
        scan(which, tgid, from);
    }
    u64 hash = stack->hash;
    // 0 means none.
    hash |= 1;
    if (map_lookup(&seen, &hash))
        return hash;
    // Another CPU may tell of this stack with a time that lies a little before.
    fill_head(&stack->head, R_USER_STACK, 0, tgid, tid, time - 100000);
    stack->hash = hash;
    stack->abi = 2;
    stack->fp = fp - sp < STACK_WINDOW ? fp : 0;
    stack->ip = ip;
    stack->words[count] = count * 8;
    u64 size = sizeof(struct user_stack) - MAX_WORDS * 8 + count * 8;
    stack->head.size = size;
    if (size > sizeof(struct user_stack) || put(stack, size))
        return 0;
    u8 one = 1;
    map_update(&seen, &hash, &one, 0);
    return hash;
}

// The same of the kernel's stack.
INLINE u64 kernel_stack(void *ctx, u32 tgid, u32 tid, u64 time)
{
    u32 zero = 0;
    struct kernel_stack *stack = map_lookup(&kernel_scratch, &zero);
    if (!stack)
        return 0;
    long bytes = get_stack(ctx, stack->frames, sizeof(stack->frames), 0);
    if (bytes <= 0)
        return 0;
    u64 hash = 1, count = (u64)bytes / 8;
    for (u32 i = 0; i < MAX_FRAMES; i++) {
        if (i >= count)
            break;
        hash = mix(hash, stack->frames[i]);
    }
    hash |= 1;
    if (map_lookup(&seen, &hash))
        return hash;
    for (u32 i = 0; i < MAX_FRAMES; i++)
        if (i >= count)
            stack->frames[i] = 0;
    fill_head(&stack->head, R_KERNEL_STACK, sizeof(*stack), tgid, tid, time - 100000);
    stack->hash = hash;
    stack->count = count;
    if (put(stack, sizeof(*stack)))
        return 0;
    u8 one = 1;
    map_update(&seen, &hash, &one, 0);
    return hash;
}

// The state as the tracepoint's record has it (TASK_REPORT): 0 for a thread that can run.
INLINE u8 reported(bool preempt, u32 state)
{
    if (preempt)
        return 0;
    if (state & 0x80) // TASK_DEAD
        return 0x10;
    if (state & 0x1000) // TASK_RTLOCK_WAIT
        return 2;
    if ((state & 0x402) == 0x402) // TASK_IDLE
        return 0x80;
    return state & 0x7f;
}

// A poll or select of no descriptors only lets time pass.
INLINE s64 recorded(struct pt_regs *regs, s64 call)
{
    bool polls = (call == CALL_POLL || call == CALL_PPOLL) && !regs->si;
    bool selects = (call == CALL_SELECT || call == CALL_PSELECT6) && !regs->di;
    return polls || selects ? CALL_CLOCK_NANOSLEEP : call;
}

INLINE bool is_blocking(s64 call)
{
    return call >= 0 && call < 1024 && blocking_calls[(call / 64) & 15] >> (call % 64) & 1;
}

// One run in some is measured; the recorder makes the sum of them an estimate for all.
INLINE void measure(struct cpu *cpu, u64 began)
{
    if (cpu->runs++ % 64 == 0)
        cpu->measured_ns += ktime_get_ns() - began;
}

// A thread has the CPU, and its switch was not seen: on some virtual machines the tracepoints of the idle task are
// silent on all CPUs but the first. Told as soon as it is found out, which is at the end of the call that it slept in.
static __attribute__((noinline)) int came_unseen(u32 tgid, u32 tid)
{
    if (!space_of(tgid))
        return 0;
    struct in in = {};
    fill_head(&in.head, R_IN, sizeof(in), tgid, tid, ktime_get_ns());
    in.cpu = get_cpu();
    return EMIT(in);
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
    struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
    u32 tgid = prev->tgid, next_tgid = next->tgid;
    struct cpu *cpu = this_cpu();
    if (!cpu)
        return 0;
    u32 tid = prev->pid;
    if (cpu->running != tid && tid != 0)
        came_unseen(tgid, tid);
    cpu->running = next->pid;
    bool prev_ours = space_of(tgid) != 0;
    bool next_ours = next_tgid == tgid ? prev_ours : space_of(next_tgid) != 0;
    if (!prev_ours && !next_ours)
        return 0;
    u64 now = ktime_get_ns();
    tell_lost(cpu, now);
    if (!prev_ours) {
        struct in in = {};
        fill_head(&in.head, R_IN, sizeof(in), next_tgid, next->pid, now);
        in.cpu = get_cpu();
        EMIT(in);
        measure(cpu, now);
        return 0;
    }
    u32 state = state_is_given ? (u32)ctx[3] : prev->__state;
    struct out out = {};
    fill_head(&out.head, R_OUT, sizeof(out), tgid, tid, now);
    out.cpu = get_cpu();
    out.next = next_ours ? next->pid : 0;
    out.state = reported(ctx[0], state);
    out.call = -1;
    struct pt_regs *regs = task_pt_regs(prev);
    s64 call = regs->orig_ax;
    if (regs->cs != USER_CODE || call < 0 || call > 1023)
        call = -1;
    u8 one = 1;
    if (!out.state) {
        // It gives its turn away: told with the switch, so that it is known why before it happens.
        if (!ctx[0] && call == CALL_YIELD) {
            out.call = call;
            out.user = user_stack(regs, tgid, tid, now, 0);
            map_update(&told, &tid, &one, 0);
        }
    } else {
        out.call = call = recorded(regs, call);
        out.addr = regs->di;
        out.op = regs->si;
        out.value = regs->dx;
        // What a thread was given to work on is the program's, but for the word that it waits on.
        if (call != CALL_FUTEX)
            out.addr = out.op = out.value = 0;
        // A thread that ends has nothing to tell any more.
        if (out.state & 0x83) {
            out.user = user_stack(regs, tgid, tid, now, 0);
            bool listed = is_blocking(call);
            if (out.state != 1 || (call != CALL_FUTEX && !listed))
                out.kernel = kernel_stack(ctx, tgid, tid, now);
            if (listed)
                map_update(&told, &tid, &one, 0);
        }
    }
    EMIT(out);
    measure(cpu, now);
    return 0;
}

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    if (!space_of(task->tgid))
        return 0;
    struct cpu *cpu = this_cpu();
    // Whoever was interrupted has nothing to do with it.
    if (!cpu || cpu->in_interrupt > 0)
        return 0;
    u64 now = ktime_get_ns(), who = get_pid_tgid();
    struct waking waking = {};
    fill_head(&waking.head, R_WAKING, sizeof(waking), who >> 32, (u32)who, now);
    waking.target = task->pid;
    waking.cpu = get_cpu();
    EMIT(waking);
    measure(cpu, now);
    return 0;
}

INLINE bool waits(u32 command)
{
    return command == 0 || command == 6 || command == 9 || command == 11 || command == 13;
}

// A futex call returns.
INLINE int futex(struct pt_regs *regs, s64 result)
{
    u64 who = get_pid_tgid();
    if (!space_of(who >> 32))
        return 0;
    u32 op = regs->si, command = op & 127;
    bool waiting = waits(command);
    // A wait that was woken: its switches tell.
    if (waiting && result == 0)
        return 0;
    struct cpu *cpu = this_cpu();
    if (!cpu)
        return 0;
    bool hands_over = command == 7;
    if (result == 0 && !hands_over && cpu->zeros++ % zero_period != 0)
        return 0;
    u64 now = ktime_get_ns();
    struct futex futex = {};
    fill_head(&futex.head, R_FUTEX, sizeof(futex), who >> 32, (u32)who, now);
    futex.addr = regs->di;
    futex.op = op;
    futex.value = regs->dx;
    futex.result = result;
    futex.cpu = get_cpu();
    // A wait that found the value changed is told as a wait that no switch follows.
    if (waiting ? result == -EAGAIN : result > 0 || hands_over)
        futex.user = user_stack(regs, who >> 32, (u32)who, now, 1);
    EMIT(futex);
    measure(cpu, now);
    return 0;
}

// A call returns that blocks by its nature: it is told now if it did not.
INLINE int blocking_call(struct pt_regs *regs, s64 nr)
{
    u64 who = get_pid_tgid();
    u32 tid = who;
    if (!space_of(who >> 32) || map_delete(&told, &tid) == 0)
        return 0;
    struct cpu *cpu = this_cpu();
    if (!cpu)
        return 0;
    u64 now = ktime_get_ns();
    struct call call = {};
    fill_head(&call.head, R_CALL, sizeof(call), who >> 32, tid, now);
    call.call = recorded(regs, nr);
    call.cpu = get_cpu();
    call.user = user_stack(regs, who >> 32, tid, now, 1);
    EMIT(call);
    measure(cpu, now);
    return 0;
}

// The place of a range that touches this one, or behind the last; a function of its own, which the verifier checks once.
__attribute__((noinline)) int touching(u32 tgid, u64 start, u64 end)
{
    struct space *space = space_of(tgid);
    if (!space)
        return MAX_RANGES;
    for (u64 i = 0; i < MAX_RANGES; i++) {
        if (i >= space->count)
            return i;
        if (space->ranges[2 * i] <= end && start <= space->ranges[2 * i + 1])
            return i;
    }
    return MAX_RANGES;
}

// Adds a range, or makes one longer that it touches.
INLINE int add_range(u32 tgid, u64 start, u64 end)
{
    u64 place = touching(tgid, start, end);
    struct space *space = space_of(tgid);
    if (!space || place >= MAX_RANGES)
        return 0;
    if (place >= space->count) {
        space->ranges[2 * place] = start;
        space->ranges[2 * place + 1] = end;
        space->count = place + 1;
    } else {
        if (start < space->ranges[2 * place])
            space->ranges[2 * place] = start;
        if (end > space->ranges[2 * place + 1])
            space->ranges[2 * place + 1] = end;
    }
    __sync_fetch_and_add(&epoch, 1);
    return 0;
}

#define PAGE_UP(bytes) (((bytes) + 4095) & ~4095ull)

SEC("tp_btf/sys_exit")
int on_call_end(u64 *ctx)
{
    struct pt_regs *regs = (void *)ctx[0];
    s64 result = ctx[1], nr = regs->orig_ax;
    struct cpu *cpu = this_cpu();
    u64 who = get_pid_tgid();
    if (cpu && cpu->running != (u32)who) {
        cpu->running = who;
        came_unseen(who >> 32, who);
    }
    if (nr == CALL_FUTEX)
        return futex(regs, result);
    if (is_blocking(nr))
        return blocking_call(regs, nr);
    bool maps = nr == CALL_MMAP, protects = nr == CALL_MPROTECT || nr == CALL_PKEY_MPROTECT;
    if (!(maps || protects) || !(regs->dx & PROT_EXEC) || (maps ? result < 0 : result != 0))
        return 0;
    u64 start = maps ? (u64)result : regs->di;
    return add_range(get_pid_tgid() >> 32, start, start + PAGE_UP(regs->si));
}

// Timers and devices: who is woken by them is woken by none of the threads.
INLINE int interrupt(int more)
{
    struct cpu *cpu = this_cpu();
    if (cpu)
        cpu->in_interrupt += more;
    return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int on_timer(u64 *ctx)
{
    return interrupt(1);
}

SEC("tp_btf/hrtimer_expire_exit")
int on_timer_end(u64 *ctx)
{
    return interrupt(-1);
}

SEC("tp_btf/irq_handler_entry")
int on_interrupt(u64 *ctx)
{
    return interrupt(1);
}

SEC("tp_btf/irq_handler_exit")
int on_interrupt_end(u64 *ctx)
{
    return interrupt(-1);
}

SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
    struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
    u32 tgid = child->tgid;
    if (parent->tgid == child->tgid)
        return 0;
    struct space *space = space_of(parent->tgid);
    if (space && map_update(&groups, &tgid, space, 0))
        __sync_fetch_and_add(&groups_lost, 1);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int on_exit(u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    u32 tgid = task->tgid;
    if (space_of(tgid) && task->signal->live.counter == 0) {
        map_delete(&groups, &tgid);
        map_delete(&mores, &tgid);
    }
    return 0;
}

// A process executes a program: of its memory only the program's own code is known now; libraries follow by mmap.
SEC("tp_btf/sched_process_exec")
int on_exec(u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    u32 tgid = task->tgid;
    struct space *space = space_of(tgid);
    if (!space)
        return 0;
    space->count = 0;
    map_delete(&mores, &tgid);
    struct mm_struct *mm = task->mm;
    return add_range(tgid, mm->start_code & ~4095ull, PAGE_UP(mm->end_code));
}

char _license[] SEC("license") = "Dual MIT/GPL";
