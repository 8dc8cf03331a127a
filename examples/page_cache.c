// A small slow program to try holdup on; docs/tour.md follows it from the symptom to the cure.
//
// Eight threads answer requests from one cache, and each request renews an entry. Without a word it answers a fixed number of
// requests and ends; it can also work for a fixed time, or serve others.
//
//   cc -O2 -g -pthread -o page_cache page_cache.c            (with -DFIXED: the cure)
//   ./page_cache [REQUESTS]                                  a fixed amount of work
//   ./page_cache --for MILLISECONDS                          a fixed time: prints how many requests per second it answered
//   ./page_cache --serve PORT                                a server on 127.0.0.1
//   ./page_cache --ask PORT [REQUESTS]                       its load: a fixed number of requests
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, PARTS = 3, PART_BYTES = 100 * 1024, REQUESTS = 4000 };

// What an entry is made in: some buffers.
struct page {
    char *parts[PARTS];
};

static pthread_mutex_t g_cache_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t g_version; // of the cache, under its lock

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t compute(uint64_t value, int steps) {
    for (int step = 0; step < steps; step++) {
        value = value * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

static void allocate(struct page *page) {
    for (int part = 0; part < PARTS; part++) {
        page->parts[part] = malloc(PART_BYTES);
        if (!page->parts[part]) fail("malloc");
    }
}

__attribute__((noinline)) static void render(struct page *page, uint64_t request) {
    for (int part = 0; part < PARTS; part++) {
        for (size_t at = 0; at < PART_BYTES; at += 4096) page->parts[part][at] = (char)request;
    }
    compute(request, 30000);
}

#ifndef FIXED
static void release(struct page *page) {
    for (int part = 0; part < PARTS; part++) free(page->parts[part]);
}

// The whole entry is made with the lock held, in memory that comes from the system and goes back to it each time.
__attribute__((noinline)) static uint64_t renew_entry(uint64_t request) {
    struct page page;
    pthread_mutex_lock(&g_cache_lock);
    allocate(&page);
    render(&page, request);
    release(&page);
    uint64_t version = ++g_version;
    pthread_mutex_unlock(&g_cache_lock);
    return version;
}
#else
// Each thread has buffers that it uses again, and makes the entry before it takes the lock.
__attribute__((noinline)) static uint64_t renew_entry(uint64_t request) {
    static _Thread_local struct page page;
    if (!page.parts[0]) allocate(&page);
    render(&page, request);
    pthread_mutex_lock(&g_cache_lock);
    uint64_t version = ++g_version;
    pthread_mutex_unlock(&g_cache_lock);
    return version;
}
#endif

static uint64_t answer(uint64_t request) {
    return renew_entry(compute(request, 500));
}

// A thread per client: of a fixed number of requests, of a fixed time, of a connection.

static uint64_t g_requests = REQUESTS; // of all threads together
static uint64_t g_end_ns;              // when they stop, if it is a fixed time
static in_port_t g_port;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *answer_number(void *unused) {
    for (uint64_t request = 0; request < g_requests / THREADS; request++) answer(request);
    return unused;
}

static void *answer_for_a_time(void *unused) {
    for (uint64_t request = 0; now_ns() < g_end_ns; request++) answer(request);
    return unused;
}

static void *answer_client(void *connection) {
    int client = (int)(intptr_t)connection;
    uint64_t request;
    while (recv(client, &request, sizeof request, MSG_WAITALL) == sizeof request) {
        uint64_t version = answer(request);
        if (send(client, &version, sizeof version, MSG_NOSIGNAL) != sizeof version) break;
    }
    close(client);
    return NULL;
}

static void *ask(void *unused) {
    struct sockaddr_in address = {AF_INET, htons(g_port), {htonl(INADDR_LOOPBACK)}, {0}};
    int server = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (connect(server, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (uint64_t request = 0; request < g_requests / THREADS; request++) {
        uint64_t version;
        if (send(server, &request, sizeof request, MSG_NOSIGNAL) != sizeof request) fail("send");
        if (recv(server, &version, sizeof version, MSG_WAITALL) != sizeof version) {
            fprintf(stderr, "the server is gone\n");
            exit(1);
        }
    }
    close(server);
    return unused;
}

static pthread_t start(void *(*body)(void *), void *argument, const char *name) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument) != 0) fail("pthread_create");
    pthread_setname_np(thread, name);
    return thread;
}

static void all(void *(*body)(void *), const char *name) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = start(body, NULL, name);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void serve(void) {
    struct sockaddr_in address = {AF_INET, htons(g_port), {htonl(INADDR_LOOPBACK)}, {0}};
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 64) != 0) fail("listen");
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client < 0) continue;
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        pthread_detach(start(answer_client, (void *)(intptr_t)client, "answers"));
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    uint64_t number = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (!strcmp(mode, "--for")) {
        g_end_ns = now_ns() + number * 1000000u;
        all(answer_for_a_time, "answers");
        printf("%.0f requests/s\n", (double)g_version * 1000 / (double)number);
    } else if (!strcmp(mode, "--serve")) {
        g_port = (in_port_t)number;
        serve();
    } else if (!strcmp(mode, "--ask")) {
        g_port = (in_port_t)number;
        if (argc > 3) g_requests = strtoull(argv[3], NULL, 10);
        all(ask, "asks");
    } else {
        if (argc > 1) g_requests = strtoull(argv[1], NULL, 10);
        all(answer_number, "answers");
        printf("%llu requests answered\n", (unsigned long long)g_version);
    }
    return 0;
}
