/* What holdup.h promises, for every lock and technique, in C99. */
#define _POSIX_C_SOURCE 200809L

#include <holdup.h>

#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Threads that outnumber CPUs stop the study locks; two are enough for them. */
#define FOR_EACH_TIMED_LOCK(X) \
  X(adaptive, ADAPTIVE, 4)     \
  X(tas, TAS, 4)               \
  X(ttas, TTAS, 4)             \
  X(futex, FUTEX, 4)           \
  X(eventfd, EVENTFD, 4)       \
  X(eventfd_sem, EVENTFD_SEM, 4) \
  X(sysv_sem, SYSV_SEM, 4)     \
  X(futex_pi, FUTEX_PI, 4)     \
  X(pipe, PIPE, 4)

#define FOR_EACH_UNTIMED_LOCK(X) \
  X(ticket, TICKET, 4)           \
  X(ticket_spin, TICKET_SPIN, 2) \
  X(mcs, MCS, 4)                 \
  X(mcs_spin, MCS_SPIN, 2)       \
  X(clh, CLH, 4)                 \
  X(clh_spin, CLH_SPIN, 2)       \
  X(fair, FAIR, 4)

#define FOR_EACH_KERNEL_LOCK(X) \
  X(eventfd)                    \
  X(eventfd_sem)                \
  X(sysv_sem)                   \
  X(futex_pi)                   \
  X(pipe)

enum { ITERATIONS = 1000 };
static const uint64_t SHORT_NS = 3000000;
static const uint64_t LONG_NS = UINT64_C(600000000000);

/* Its address tells a waiter to wait without end. */
static int forever;

/* A counter that loses additions unless its lock excludes; the lock is static and never initialised by code. */
#define DEFINE_EXCLUSION(id, ID, threads)                       \
  static holdup_##id##_t id##_lock = HOLDUP_##ID##_INIT;        \
  static long id##_count;                                       \
                                                                \
  static void *id##_add(void *number) {                         \
    int i;                                                      \
    for (i = 0; i < ITERATIONS; i++) {                          \
      holdup_##id##_lock(&id##_lock);                           \
      id##_count++;                                             \
      holdup_##id##_unlock(&id##_lock);                         \
    }                                                           \
    return number;                                              \
  }                                                             \
                                                                \
  static void *id##_try(void *number) {                         \
    CHECK(!holdup_##id##_try_lock(&id##_lock));                 \
    return number;                                              \
  }                                                             \
                                                                \
  static void id##_conforms(void) {                             \
    holdup_##id##_t made;                                       \
    holdup_##id##_t still = HOLDUP_##ID##_INIT;                 \
    memset(&made, 0, sizeof made);                              \
    holdup_##id##_init(&made);                                  \
    CHECK(memcmp(&made, &still, sizeof made) == 0);             \
    holdup_##id##_lock(&made);                                  \
    holdup_##id##_unlock(&made);                                \
    holdup_##id##_destroy(&made);                               \
    run_threads(threads, id##_add);                             \
    CHECK(id##_count == (long)threads * ITERATIONS);            \
    CHECK(!holdup_##id##_is_locked(&id##_lock));                \
    CHECK(holdup_##id##_try_lock(&id##_lock));                  \
    CHECK(holdup_##id##_is_locked(&id##_lock));                 \
    run_threads(1, id##_try);                                   \
    holdup_##id##_unlock(&id##_lock);                           \
  }

#define DEFINE_TIMEOUTS(id, ID, threads)                                                       \
  static void *id##_give_up(void *number) {                                                    \
    const unsigned long long began = now_ns();                                                 \
    CHECK(!holdup_##id##_try_lock_for_ns(&id##_lock, SHORT_NS));                               \
    CHECK(now_ns() - began >= SHORT_NS);                                                       \
    CHECK(!holdup_##id##_try_lock_for_ns(&id##_lock, 0));                                      \
    return number;                                                                             \
  }                                                                                            \
                                                                                               \
  static void *id##_wait(void *number) {                                                       \
    CHECK(holdup_##id##_try_lock_for_ns(&id##_lock, number == NULL ? LONG_NS : UINT64_MAX));   \
    id##_count++;                                                                              \
    holdup_##id##_unlock(&id##_lock);                                                          \
    return number;                                                                             \
  }                                                                                            \
                                                                                               \
  static void id##_times_out(void) {                                                           \
    pthread_t waiters[2];                                                                      \
    CHECK(holdup_##id##_try_lock_for_ns(&id##_lock, SHORT_NS));                                \
    run_threads(1, id##_give_up);                                                              \
    id##_count = 0;                                                                            \
    CHECK(pthread_create(&waiters[0], NULL, id##_wait, NULL) == 0);                            \
    CHECK(pthread_create(&waiters[1], NULL, id##_wait, &forever) == 0);                         \
    holdup_##id##_unlock(&id##_lock);                                                          \
    CHECK(pthread_join(waiters[0], NULL) == 0 && pthread_join(waiters[1], NULL) == 0);         \
    CHECK(id##_count == 2);                                                                    \
  }

/* Readers share; a writer and readers keep each other out. */
#define FOR_EACH_SHARED_LOCK(X) X(rw_adaptive, RW_ADAPTIVE, 4) X(rw_sharded, RW_SHARDED, 4)

#define DEFINE_SHARING(id, ID, threads)                                    \
  static void *id##_beside_a_reader(void *number) {                        \
    CHECK(holdup_##id##_try_lock_shared(&id##_lock));                      \
    holdup_##id##_unlock_shared(&id##_lock);                               \
    CHECK(!holdup_##id##_try_lock(&id##_lock));                            \
    CHECK(!holdup_##id##_try_lock_for_ns(&id##_lock, SHORT_NS));           \
    CHECK(holdup_##id##_try_lock_shared_for_ns(&id##_lock, LONG_NS));      \
    holdup_##id##_unlock_shared(&id##_lock);                               \
    return number;                                                         \
  }                                                                        \
                                                                           \
  static void *id##_beside_a_writer(void *number) {                        \
    const unsigned long long began = now_ns();                             \
    CHECK(!holdup_##id##_try_lock_shared(&id##_lock));                     \
    CHECK(!holdup_##id##_try_lock_shared_for_ns(&id##_lock, SHORT_NS));    \
    CHECK(now_ns() - began >= SHORT_NS);                                   \
    return number;                                                         \
  }                                                                        \
                                                                           \
  static void *id##_look(void *number) {                                   \
    int i;                                                                 \
    for (i = 0; i < ITERATIONS; i++) {                                     \
      long before;                                                         \
      holdup_##id##_lock_shared(&id##_lock);                               \
      before = id##_count;                                                 \
      CHECK(before == id##_count);                                         \
      holdup_##id##_unlock_shared(&id##_lock);                             \
    }                                                                      \
    return number == NULL ? id##_add(number) : number;                     \
  }                                                                        \
                                                                           \
  static void id##_shares(void) {                                          \
    holdup_##id##_lock_shared(&id##_lock);                                 \
    CHECK(holdup_##id##_is_locked(&id##_lock));                            \
    run_threads(1, id##_beside_a_reader);                                  \
    holdup_##id##_unlock_shared(&id##_lock);                               \
    holdup_##id##_lock(&id##_lock);                                        \
    run_threads(1, id##_beside_a_writer);                                  \
    holdup_##id##_unlock(&id##_lock);                                      \
    id##_count = 0;                                                        \
    run_threads(threads, id##_look);                                       \
    CHECK(id##_count == ITERATIONS && !holdup_##id##_is_locked(&id##_lock)); \
  }

FOR_EACH_SHARED_LOCK(DEFINE_EXCLUSION)
FOR_EACH_SHARED_LOCK(DEFINE_TIMEOUTS)
FOR_EACH_SHARED_LOCK(DEFINE_SHARING)
FOR_EACH_TIMED_LOCK(DEFINE_EXCLUSION)
FOR_EACH_UNTIMED_LOCK(DEFINE_EXCLUSION)
FOR_EACH_TIMED_LOCK(DEFINE_TIMEOUTS)

#define CONFORMS(id, ID, threads) \
  id##_conforms();                \
  printf("%s excludes\n", #id);
#define TIMES_OUT(id, ID, threads) \
  id##_times_out();                \
  printf("%s times out\n", #id);
#define SHARES(id, ID, threads) \
  id##_shares();                \
  printf("%s shares\n", #id);
#define CREATES(id)                                          \
  {                                                          \
    holdup_##id##_t lock;                                    \
    holdup_##id##_init(&lock);                               \
    CHECK(holdup_##id##_create(&lock) == 0);                 \
    CHECK(holdup_##id##_create(&lock) == 0);                 \
    holdup_##id##_destroy(&lock);                            \
  }
#define DESTROY(id, ID, threads) holdup_##id##_destroy(&id##_lock);

/* A child of fork() may go on with a lock that its thread held, and with one that nobody held. */
#define FOR_EACH_LOCK_OF_THE_CHILD(X) X(adaptive) X(tas) X(ttas) X(ticket) X(ticket_spin) X(mcs) X(mcs_spin) X(clh) X(clh_spin) X(futex) X(fair) X(rw_adaptive) X(rw_sharded)
#define IN_A_CHILD(id)                                                     \
  {                                                                        \
    holdup_##id##_t held, other;                                           \
    pid_t child;                                                           \
    int status;                                                            \
    holdup_##id##_init(&held);                                             \
    holdup_##id##_init(&other);                                            \
    holdup_##id##_lock(&held);                                             \
    child = fork();                                                        \
    CHECK(child >= 0);                                                     \
    if (child == 0) {                                                      \
      holdup_##id##_unlock(&held);                                         \
      holdup_##id##_lock(&other);                                          \
      _exit(holdup_##id##_try_lock(&held) ? 0 : 1);                        \
    }                                                                      \
    CHECK(waitpid(child, &status, 0) == child && status == 0);             \
    CHECK(holdup_##id##_is_locked(&held) && !holdup_##id##_is_locked(&other)); \
    holdup_##id##_unlock(&held);                                           \
    holdup_##id##_destroy(&held);                                          \
    holdup_##id##_destroy(&other);                                         \
  }

/* At most so many inside; a plain number under a lock of its own tells. */
enum { INSIDE = 3 };
static holdup_gate_t gate = HOLDUP_GATE_INIT(INSIDE);
static holdup_adaptive_t gate_lock = HOLDUP_ADAPTIVE_INIT;
static int inside, most_inside, entries;

static void *pass(void *number) {
  int i;
  for (i = 0; i < 200; i++) {
    if (i % 4 == 0) {
      while (!holdup_gate_try_enter(&gate)) {
        sched_yield();
      }
    } else {
      holdup_gate_enter(&gate);
    }
    holdup_adaptive_lock(&gate_lock);
    inside++;
    entries++;
    most_inside = inside > most_inside ? inside : most_inside;
    holdup_adaptive_unlock(&gate_lock);
    sched_yield();
    holdup_adaptive_lock(&gate_lock);
    inside--;
    holdup_adaptive_unlock(&gate_lock);
    holdup_gate_leave(&gate);
  }
  return number;
}

static void gate_conforms(void) {
  holdup_gate_t other;
  run_threads(8, pass);
  CHECK(entries == 8 * 200 && inside == 0 && most_inside <= INSIDE);
  CHECK(holdup_gate_present(&gate) == 0 && holdup_gate_limit(&gate) == INSIDE);
  holdup_gate_init(&other, 0);
  CHECK(holdup_gate_limit(&other) == 1);
  holdup_gate_enter(&other);
  CHECK(!holdup_gate_try_enter(&other));
  holdup_gate_set_limit(&other, 2);
  CHECK(holdup_gate_try_enter(&other) && holdup_gate_present(&other) == 2);
  holdup_gate_leave(&other);
  holdup_gate_leave(&other);
}

/* Threads move money between accounts, each move under the locks of both. */
enum { ACCOUNTS = 16, MOVES = 500 };
static holdup_table_t *table;
static long balances[ACCOUNTS];

static void *move_money(void *number) {
  uint64_t random = (uint64_t)(size_t)number + 1;
  int i;
  for (i = 0; i < MOVES; i++) {
    uint64_t keys[3];
    size_t slots[3], held;
    size_t from, to;
    random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    from = (size_t)(random >> 33) % ACCOUNTS;
    to = (size_t)(random >> 45) % ACCOUNTS;
    keys[0] = holdup_key_of(&balances[from]);
    keys[1] = holdup_key_of(&balances[to]);
    keys[2] = keys[0];
    held = holdup_table_lock_many(table, keys, 3, slots);
    CHECK(held >= 1 && held <= 2);
    balances[from]--;
    balances[to]++;
    holdup_table_unlock_many(table, slots, held);
    holdup_table_lock(table, keys[0]);
    balances[from] += 0;
    holdup_table_unlock(table, keys[0]);
  }
  return number;
}

static void *all_locks_are_held(void *number) {
  uint64_t key;
  for (key = 0; key < 100; key++) {
    CHECK(!holdup_table_try_lock(table, key));
    CHECK(!holdup_table_try_lock_for_ns(table, key, key == 0 ? SHORT_NS : 0));
  }
  return number;
}

static void table_conforms(void) {
  static int seen[7];
  uint64_t key;
  long sum = 0;
  size_t slots[1];
  int i;
  CHECK(holdup_table_create(0) == NULL);
  CHECK(holdup_table_create(SIZE_MAX) == NULL);
  holdup_table_destroy(NULL);
  table = holdup_table_create(7);
  CHECK(table != NULL && holdup_table_locks(table) == 7);
  for (key = 0; key < 1000; key++) {
    const size_t slot = holdup_table_slot(table, key);
    CHECK(slot < 7 && slot == holdup_table_slot(table, key));
    seen[slot]++;
  }
  for (i = 0; i < 7; i++) {
    CHECK(seen[i] > 90);
  }
  CHECK(holdup_table_lock_many(table, NULL, 0, slots) == 0);
  holdup_table_unlock_many(table, slots, 0);
  run_threads(8, move_money);
  for (i = 0; i < ACCOUNTS; i++) {
    sum += balances[i];
  }
  CHECK(sum == 0);
  holdup_table_lock_all(table);
  run_threads(1, all_locks_are_held);
  holdup_table_unlock_all(table);
  CHECK(holdup_table_try_lock(table, 5));
  holdup_table_unlock(table, 5);
  CHECK(holdup_table_try_lock_for_ns(table, 5, SHORT_NS));
  holdup_table_unlock(table, 5);
  holdup_table_destroy(table);
  CHECK(holdup_key_of_bytes("alice", 5) == holdup_key_of_bytes("alices", 5));
  CHECK(holdup_key_of_bytes("alice", 5) != holdup_key_of_bytes("alice", 4));
  CHECK(holdup_key_of_bytes(NULL, 0) == holdup_key_of_bytes("", 0));
}

static holdup_counter_t counter = HOLDUP_COUNTER_INIT;

static void *count(void *number) {
  int i;
  for (i = 0; i < ITERATIONS; i++) {
    holdup_counter_add(&counter, i % 2 == 0 ? 3 : -1);
  }
  return number;
}

static void counter_conforms(void) {
  run_threads(4, count);
  CHECK(holdup_counter_sum(&counter) == 4 * ITERATIONS);
  CHECK(holdup_counter_take(&counter) == 4 * ITERATIONS);
  CHECK(holdup_counter_sum(&counter) == 0);
}

enum { INDICES = 10000 };
static holdup_chunks_t chunks;
static unsigned char claimed[INDICES];

static void *claim(void *number) {
  uint64_t begin, end, i;
  while (holdup_chunks_next(&chunks, &begin, &end)) {
    CHECK(begin < end && end <= INDICES);
    for (i = begin; i < end; i++) {
      claimed[i]++;
    }
  }
  return number;
}

static void every_index_was_claimed_once(void) {
  int i;
  for (i = 0; i < INDICES; i++) {
    CHECK(claimed[i] == 1);
    claimed[i] = 0;
  }
}

static void chunks_conform(void) {
  uint64_t begin = 1, end = 2;
  holdup_chunks_init_fixed(&chunks, 0, INDICES, 7);
  run_threads(4, claim);
  every_index_was_claimed_once();
  holdup_chunks_init_guided(&chunks, 0, INDICES, 4, 5);
  run_threads(4, claim);
  every_index_was_claimed_once();
  holdup_chunks_init_fixed(&chunks, 9, 3, 1);
  CHECK(!holdup_chunks_next(&chunks, &begin, &end) && begin == 1 && end == 2);
}

int main(void) {
  FOR_EACH_TIMED_LOCK(CONFORMS)
  FOR_EACH_UNTIMED_LOCK(CONFORMS)
  FOR_EACH_TIMED_LOCK(TIMES_OUT)
  FOR_EACH_SHARED_LOCK(CONFORMS)
  FOR_EACH_SHARED_LOCK(TIMES_OUT)
  FOR_EACH_SHARED_LOCK(SHARES)
  FOR_EACH_KERNEL_LOCK(CREATES)
  FOR_EACH_TIMED_LOCK(DESTROY)
  FOR_EACH_UNTIMED_LOCK(DESTROY)
  FOR_EACH_SHARED_LOCK(DESTROY)
  FOR_EACH_LOCK_OF_THE_CHILD(IN_A_CHILD)
  gate_conforms();
  table_conforms();
  counter_conforms();
  chunks_conform();
  printf("all conform\n");
  return 0;
}
