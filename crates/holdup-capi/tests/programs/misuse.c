/* Misuses one lock in one way; a library with checks must stop it. */
#define _POSIX_C_SOURCE 200809L

#include <holdup.h>

#include <string.h>

#include "check.h"

#define FOR_EACH_LOCK(X)                                                                                \
  X(adaptive) X(tas) X(ttas) X(ticket) X(ticket_spin) X(mcs) X(mcs_spin) X(clh) X(clh_spin) X(futex)    \
  X(fair) X(eventfd) X(eventfd_sem) X(sysv_sem) X(futex_pi) X(pipe) X(rw_adaptive) X(rw_sharded)

#define DEFINE(id)                                             \
  static void *id##_unlock_by_stranger(void *lock) {           \
    holdup_##id##_unlock((holdup_##id##_t *)lock);             \
    return NULL;                                               \
  }                                                            \
                                                               \
  static void id##_misused(const char *way) {                  \
    static holdup_##id##_t lock;                               \
    holdup_##id##_init(&lock);                                 \
    if (strcmp(way, "unlock-free") == 0) {                     \
      holdup_##id##_unlock(&lock);                             \
    } else if (strcmp(way, "unlock-twice") == 0) {             \
      holdup_##id##_lock(&lock);                               \
      holdup_##id##_unlock(&lock);                             \
      holdup_##id##_unlock(&lock);                             \
    } else if (strcmp(way, "destroy-held") == 0) {             \
      holdup_##id##_lock(&lock);                               \
      holdup_##id##_destroy(&lock);                            \
    } else if (strcmp(way, "lock-again") == 0) {               \
      holdup_##id##_lock(&lock);                               \
      holdup_##id##_lock(&lock);                               \
    } else if (strcmp(way, "stranger") == 0) {                 \
      pthread_t stranger;                                      \
      holdup_##id##_lock(&lock);                               \
      CHECK(pthread_create(&stranger, NULL, id##_unlock_by_stranger, &lock) == 0); \
      CHECK(pthread_join(stranger, NULL) == 0);                \
    }                                                          \
  }

FOR_EACH_LOCK(DEFINE)

#define MISUSE(id)                \
  if (strcmp(what, #id) == 0) {   \
    id##_misused(way);            \
  }

static void reader_misused(const char *way) {
  holdup_rw_adaptive_t lock = HOLDUP_RW_ADAPTIVE_INIT;
  if (strcmp(way, "lock-again") == 0) {
    holdup_rw_adaptive_lock(&lock);
    holdup_rw_adaptive_lock_shared(&lock);
  } else if (strcmp(way, "unlock-twice") == 0) {
    holdup_rw_adaptive_lock_shared(&lock);
    holdup_rw_adaptive_unlock_shared(&lock);
    holdup_rw_adaptive_unlock_shared(&lock);
  }
}

static void table_misused(const char *way) {
  holdup_table_t *table = holdup_table_create(1);
  holdup_table_lock(table, 1);
  if (strcmp(way, "lock-again") == 0) {
    holdup_table_lock(table, 2);
  } else if (strcmp(way, "destroy-held") == 0) {
    holdup_table_destroy(table);
  }
}

static void gate_misused(void) {
  holdup_gate_t gate = HOLDUP_GATE_INIT(1);
  holdup_gate_enter(&gate);
  holdup_gate_leave(&gate);
  holdup_gate_leave(&gate);
}

int main(int argc, char **argv) {
  const char *what = argc == 3 ? argv[1] : "";
  const char *way = argc == 3 ? argv[2] : "";
  FOR_EACH_LOCK(MISUSE)
  if (strcmp(what, "reader") == 0) {
    reader_misused(way);
  }
  if (strcmp(what, "table") == 0) {
    table_misused(way);
  }
  if (strcmp(what, "gate") == 0) {
    gate_misused();
  }
  printf("%s %s went unnoticed\n", what, way);
  return 3;
}
