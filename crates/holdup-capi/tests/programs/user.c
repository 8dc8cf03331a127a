/* A user's program: a lock, a gate, a table, a counter; it links whatever the build system says. */
#include <holdup.h>
#include <stdio.h>

static holdup_adaptive_t lock = HOLDUP_ADAPTIVE_INIT;
static holdup_gate_t gate = HOLDUP_GATE_INIT(2);
static holdup_counter_t counter = HOLDUP_COUNTER_INIT;

int main(void) {
  holdup_table_t *table = holdup_table_create(256);
  if (table == NULL) {
    return 1;
  }
  holdup_gate_enter(&gate);
  holdup_adaptive_lock(&lock);
  holdup_table_lock(table, 7);
  holdup_counter_add(&counter, 42);
  holdup_table_unlock(table, 7);
  holdup_adaptive_unlock(&lock);
  holdup_gate_leave(&gate);
  holdup_table_destroy(table);
  printf("%lld with holdup-locks %s\n", (long long)holdup_counter_sum(&counter), HOLDUP_LOCKS_VERSION);
  return 0;
}
