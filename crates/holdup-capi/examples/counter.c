/* counter: threads add to one counter, each to a cell of its own; the sum is exact once they have ended. */
#define _DEFAULT_SOURCE

#include <holdup.h>
#include <pthread.h>

#include "run.h"

static const char usage[] =
    "usage: counter [NUMTHREADS [ITERATIONS]]\n"
    "  NUMTHREADS  threads, 1 to 64 [4]\n"
    "  ITERATIONS  additions of each thread [1000000]\n"
    "example: counter 8 100000\n";

static holdup_counter_t counter = HOLDUP_COUNTER_INIT;
static long long iterations;

static void *add(void *unused) {
  long long i;
  for (i = 0; i < iterations; i++) {
    holdup_counter_add(&counter, 1);
  }
  return unused;
}

int main(int argc, char **argv) {
  pthread_t running[64];
  const int threads = (int)number(argc, argv, 1, "NUMTHREADS", 1, 64, 4, usage);
  int i;
  moment_t began;
  if (argc > 3) {
    fputs(usage, stderr);
    return 2;
  }
  iterations = number(argc, argv, 2, "ITERATIONS", 0, 1000000000, 1000000, usage);
  printf("NumThreads   %d  %lld iterations each\n\n", threads, iterations);
  began = now();
  for (i = 0; i < threads; i++) {
    if (pthread_create(&running[i], NULL, add, NULL) != 0) {
      perror("a thread cannot be started");
      return 1;
    }
  }
  for (i = 0; i < threads; i++) {
    pthread_join(running[i], NULL);
  }
  must_be_equal("counter", (uint64_t)holdup_counter_sum(&counter), (uint64_t)threads * (uint64_t)iterations);
  printf("operations  %8lld\n", (long long)holdup_counter_sum(&counter));
  print_times(began);
  return 0;
}
