/* gate: threads that all want one lock, of which a gate lets a few be active at a time ("thread serialisation", 1998). */
#define _DEFAULT_SOURCE

#include <holdup.h>
#include <pthread.h>

#include "run.h"

static const char usage[] =
    "usage: gate [NUMTHREADS [NUMTHACTIVE [ITERATIONS]]]\n"
    "  NUMTHREADS   threads, 1 to 64 [8]\n"
    "  NUMTHACTIVE  threads that may be active at once, 1 to 64 [2]\n"
    "  ITERATIONS   times each thread takes the lock [1000000]\n"
    "example: gate 8 1 100000\n";

static holdup_gate_t gate;
static holdup_adaptive_t lock = HOLDUP_ADAPTIVE_INIT;
static long long iterations, count, active, most_active;

static void *work_inside(void *unused) {
  long long i;
  holdup_gate_enter(&gate);
  holdup_adaptive_lock(&lock);
  active++;
  most_active = active > most_active ? active : most_active;
  holdup_adaptive_unlock(&lock);
  for (i = 0; i < iterations; i++) {
    holdup_adaptive_lock(&lock);
    count++;
    holdup_adaptive_unlock(&lock);
  }
  holdup_adaptive_lock(&lock);
  active--;
  holdup_adaptive_unlock(&lock);
  holdup_gate_leave(&gate);
  return unused;
}

int main(int argc, char **argv) {
  pthread_t running[64];
  const int threads = (int)number(argc, argv, 1, "NUMTHREADS", 1, 64, 8, usage);
  const uint32_t admitted = (uint32_t)number(argc, argv, 2, "NUMTHACTIVE", 1, 64, 2, usage);
  int i;
  moment_t began;
  if (argc > 4) {
    fputs(usage, stderr);
    return 2;
  }
  iterations = number(argc, argv, 3, "ITERATIONS", 0, 1000000000, 1000000, usage);
  printf("NumThreads   %d  %lld iterations each\n", threads, iterations);
  printf("NumThActive  %u\n\n", admitted);
  holdup_gate_init(&gate, admitted);
  began = now();
  for (i = 0; i < threads; i++) {
    if (pthread_create(&running[i], NULL, work_inside, NULL) != 0) {
      perror("a thread cannot be started");
      return 1;
    }
  }
  for (i = 0; i < threads; i++) {
    pthread_join(running[i], NULL);
  }
  must_be_equal("counter", (uint64_t)count, (uint64_t)threads * (uint64_t)iterations);
  must_be_equal("threads beyond the gate", most_active > (long long)admitted, 0);
  printf("operations  %8lld\n", count);
  print_times(began);
  return 0;
}
