/* What the test programs share: a check that says where it failed, and threads. */
#ifndef CHECK_H
#define CHECK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(what)                                                                \
  do {                                                                             \
    if (!(what)) {                                                                 \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);           \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)

enum { MOST_THREADS = 64 };

/* Runs `body` in so many threads, each with its number, and waits for them. */
static inline void run_threads(int threads, void *(*body)(void *)) {
  pthread_t ids[MOST_THREADS];
  int i;
  for (i = 0; i < threads; i++) {
    CHECK(pthread_create(&ids[i], NULL, body, (void *)(size_t)i) == 0);
  }
  for (i = 0; i < threads; i++) {
    CHECK(pthread_join(ids[i], NULL) == 0);
  }
}

static inline unsigned long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec;
}

#endif
