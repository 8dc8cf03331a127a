/* A histogram of pseudo-random numbers by eight threads of OpenMP. Every number is counted in a critical section; built
   with -DFIXED, each thread counts in a table of its own, and the tables are added up once at the end. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 256, THREADS = 8 };

static uint64_t table[BUCKETS];

/* The bucket of the n-th number: splitmix64, two rounds of it. */
static unsigned bucket(uint64_t n) {
    uint64_t x = n;
    for (int round = 0; round < 2; round++) {
        x += 0x9e3779b97f4a7c15;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
        x ^= x >> 31;
    }
    return x % BUCKETS;
}

static void count(uint64_t numbers) {
#ifdef FIXED
#pragma omp parallel num_threads(THREADS)
    {
        uint64_t own[BUCKETS] = {0};
#pragma omp for
        for (uint64_t n = 0; n < numbers; n++)
            own[bucket(n)]++;
#pragma omp critical
        for (int b = 0; b < BUCKETS; b++)
            table[b] += own[b];
    }
#else
#pragma omp parallel for num_threads(THREADS)
    for (uint64_t n = 0; n < numbers; n++) {
        unsigned b = bucket(n);
#pragma omp critical
        table[b]++;
    }
#endif
}

int main(int argc, char **argv) {
    uint64_t numbers = argc > 1 ? strtoull(argv[1], NULL, 10) : 30000000, sum = 0;
    count(numbers);
    for (int b = 0; b < BUCKETS; b++)
        sum += table[b];
    printf("%llu numbers counted\n", (unsigned long long)sum);
    return sum == numbers ? 0 : 1;
}
