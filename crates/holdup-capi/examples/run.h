/* What the example programs share: arguments, work, random numbers, and the account of a run. C99 and C++17. */
#ifndef RUN_H
#define RUN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* Ends the program because of a wrong argument: what is wrong, and how it is used. */
static inline void wrong(const char *usage, const char *name, const char *text, long long low, long long high) {
  fprintf(stderr, "%s is %s; it must be a whole number from %lld to %lld\n%s", name, text, low, high, usage);
  exit(2);
}

/* The argument at `index`, or `otherwise` if there are fewer. */
static inline long long number(int argc, char **argv, int index, const char *name, long long low, long long high,
                               long long otherwise, const char *usage) {
  char *end;
  long long value;
  if (index >= argc) {
    return otherwise;
  }
  value = strtoll(argv[index], &end, 10);
  if (end == argv[index] || *end != '\0' || value < low || value > high) {
    wrong(usage, name, argv[index], low, high);
  }
  return value;
}

/* So many steps of work, each a multiplication that waits for the one before: the unit of 'holdup bench'. */
static inline void work(uint64_t steps) {
  uint64_t chain = steps;
  for (; steps > 0; steps--) {
    chain = (chain ^ UINT64_C(0x9E3779B9)) * UINT64_C(0xD1290B2688CCD5A3);
    __asm__ volatile("" : "+r"(chain));
  }
}

/* A thread's own random numbers (splitmix64): a generator that all share would hide the lock. Streams are those of the bench. */
typedef struct {
  uint64_t state;
} random_t;

static inline uint64_t random_next(random_t *random) {
  uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static inline random_t random_stream(uint64_t index) {
  random_t seed = {UINT64_C(0x5EED0F401D0B)};
  seed.state = random_next(&seed) ^ index * UINT64_C(0xA0761D6478BD642F);
  seed.state = random_next(&seed) ^ index * UINT64_C(0xA0761D6478BD642F);
  return seed;
}

static inline uint64_t random_below(random_t *random, uint64_t bound) {
  __extension__ typedef unsigned __int128 wide;
  return (uint64_t)(((wide)random_next(random) * bound) >> 64);
}

/* The clocks of the process at one moment. */
typedef struct {
  struct timespec real;
  struct rusage used;
} moment_t;

static inline moment_t now(void) {
  moment_t moment;
  clock_gettime(CLOCK_MONOTONIC, &moment.real);
  getrusage(RUSAGE_SELF, &moment.used);
  return moment;
}

static inline double seconds(struct timeval from, struct timeval to) {
  return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_usec - from.tv_usec) / 1e6;
}

/* Elapsed time between two moments. */
static inline double seconds_between(moment_t began, moment_t ended) {
  return (double)(ended.real.tv_sec - began.real.tv_sec) + (double)(ended.real.tv_nsec - began.real.tv_nsec) / 1e9;
}

/* Elapsed, user and kernel time and context switches since `began`, as 'holdup timemutex' prints them. */
static inline void print_times(moment_t began) {
  const moment_t end = now();
  printf("real      %10.3f s\n", seconds_between(began, end));
  printf("user      %10.3f s\n", seconds(began.used.ru_utime, end.used.ru_utime));
  printf("kernel    %10.3f s\n", seconds(began.used.ru_stime, end.used.ru_stime));
  printf("switches  %10ld voluntary, %ld involuntary\n", end.used.ru_nvcsw - began.used.ru_nvcsw,
         end.used.ru_nivcsw - began.used.ru_nivcsw);
}

/* The invariant of a run: what the lock guarded must add up. */
static inline void must_be_equal(const char *what, uint64_t found, uint64_t expected) {
  if (found != expected) {
    fprintf(stderr, "%s: %llu in place of %llu: the lock does not exclude\n", what, (unsigned long long)found,
            (unsigned long long)expected);
    exit(1);
  }
}

#endif
