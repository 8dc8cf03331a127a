// timemutex: the program TimeMutex of 1998 on holdup's locks. N threads each repeat: take a lock Depth times, perhaps yield, waste
// CPU time, release it Depth times, perhaps yield. 'holdup timemutex' takes the same arguments and prints the same lines.
#include <holdup.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "run.h"

namespace {

constexpr char usage[] =
    "usage: timemutex [WHICH [DEPTH [DELAY [NUMTHREADS [SLEEPPOINTS [NUMTHACTIVE]]]]]] [--iterations N]\n"
    "  WHICH        1 critical section, 2 two nested ones, 3 kernel mutex, 4 event, 5 semaphore [1]\n"
    "  DEPTH        times the lock is taken per iteration; 0 is no lock [1]\n"
    "  DELAY        CPU time wasted inside: 0 to DELAY units of 20 work steps at random [0]\n"
    "  NUMTHREADS   threads, 1 to 64 [4]\n"
    "  SLEEPPOINTS  0 never yield, 1 while holding, 2 after releasing, 3 both [0]\n"
    "  NUMTHACTIVE  threads that may be active at once [NUMTHREADS]\n"
    "example: timemutex 1 5 10 8\n";

constexpr std::uint64_t steps_per_delay = 20;

struct options {
  long long which, depth, delay, threads, sleep_points, active, iterations;
};

// What happens between the locks and after them.
struct loop {
  const options& asked;
  std::uint64_t count = 0;

  void inside(random_t& random) {
    ++count;
    if (asked.sleep_points & 1) {
      std::this_thread::yield();
    }
    if (asked.delay > 0) {
      work(random_below(&random, static_cast<std::uint64_t>(asked.delay) * steps_per_delay + 1));
    }
  }
};

// Every thread's iterations, with all locks taken `depth` times in order and released in the opposite order.
template <class Lock>
void run(const options& asked) {
  std::vector<Lock> locks(asked.which == 2 ? 2 : 1);
  holdup::gate gate(static_cast<std::uint32_t>(asked.active));
  loop body{asked};
  std::vector<std::thread> threads;
  for (long long index = 0; index < asked.threads; ++index) {
    threads.emplace_back([&, index] {
      // The rest wait once, before their loop: "thread serialisation".
      holdup::gate::pass pass(gate);
      random_t random = random_stream(static_cast<std::uint64_t>(index));
      for (long long i = 0; i < asked.iterations; ++i) {
        for (auto& lock : locks) {
          for (long long level = 0; level < asked.depth; ++level) {
            lock.lock();
          }
        }
        body.inside(random);
        for (auto lock = locks.rbegin(); lock != locks.rend(); ++lock) {
          for (long long level = 0; level < asked.depth; ++level) {
            lock->unlock();
          }
        }
        if (asked.sleep_points & 2) {
          std::this_thread::yield();
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  must_be_equal("iterations", body.count, static_cast<std::uint64_t>(asked.threads * asked.iterations));
}

// The baseline: no lock, so every thread counts for itself.
void run_without_lock(const options& asked) {
  holdup::gate gate(static_cast<std::uint32_t>(asked.active));
  std::vector<std::thread> threads;
  for (long long index = 0; index < asked.threads; ++index) {
    threads.emplace_back([&, index] {
      holdup::gate::pass pass(gate);
      random_t random = random_stream(static_cast<std::uint64_t>(index));
      loop body{asked};
      for (long long i = 0; i < asked.iterations; ++i) {
        body.inside(random);
        if (asked.sleep_points & 2) {
          std::this_thread::yield();
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

// A lock that is taken more than once by its holder must be recursive.
template <class Lock>
void run_to_depth(const options& asked) {
  asked.depth > 1 ? run<holdup::recursive<Lock>>(asked) : run<Lock>(asked);
}

struct way {
  const char* then;
  const char* lock;
  void (*run)(const options&);
};

const way ways[] = {
    {"critical section", "fair", run_to_depth<holdup::fair>},
    {"two nested critical sections", "fair", run_to_depth<holdup::fair>},
    {"kernel mutex", "futex-pi", run_to_depth<holdup::futex_pi>},
    {"auto-reset event", "eventfd", run_to_depth<holdup::eventfd>},
    {"binary semaphore", "eventfd-sem", run_to_depth<holdup::eventfd_sem>},
};
const char* const sleep_points[] = {"never yields", "yields while holding", "yields after releasing",
                                    "yields while holding and after releasing"};

// Takes what the program of 1998 corrected without a word, and remembers the word.
options read(int argc, char** argv, std::vector<std::string>& notes) {
  options asked{};
  asked.iterations = 1'000'000;
  if (argc > 2 && std::strcmp(argv[argc - 2], "--iterations") == 0) {
    asked.iterations = number(argc, argv, argc - 1, "--iterations", 0, 1'000'000'000, 0, usage);
    argc -= 2;
  }
  if (argc > 7) {
    std::fputs(usage, stderr);
    std::exit(2);
  }
  asked.which = number(argc, argv, 1, "WHICH", 1, 5, 1, usage);
  asked.depth = number(argc, argv, 2, "DEPTH", 0, 64, 1, usage);
  asked.delay = number(argc, argv, 3, "DELAY", 0, UINT32_MAX, 0, usage);
  asked.threads = number(argc, argv, 4, "NUMTHREADS", 1, 64, 4, usage);
  asked.sleep_points = number(argc, argv, 5, "SLEEPPOINTS", INT32_MIN, INT32_MAX, 0, usage);
  if (asked.sleep_points < 0 || asked.sleep_points > 3) {
    notes.push_back("SLEEPPOINTS " + std::to_string(asked.sleep_points) + " is not 0 to 3: taken as 0");
    asked.sleep_points = 0;
  }
  const long long active = number(argc, argv, 6, "NUMTHACTIVE", INT32_MIN, INT32_MAX, asked.threads, usage);
  asked.active = std::clamp(active, 1LL, asked.threads);
  if (asked.active != active) {
    notes.push_back("NUMTHACTIVE " + std::to_string(active) + " is not 1 to " + std::to_string(asked.threads) +
                    ": taken as " + std::to_string(asked.active));
  }
  return asked;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> notes;
  const options asked = read(argc, argv, notes);
  const way& way = ways[asked.which - 1];
  std::printf("Which        %lld  %s (%s)\n", asked.which, way.then, asked.depth == 0 ? "no lock: the baseline" : way.lock);
  std::printf("Depth        %lld\n", asked.depth);
  std::printf("Delay        %lld  0 to %lld work steps\n", asked.delay, asked.delay * static_cast<long long>(steps_per_delay));
  std::printf("NumThreads   %lld  %lld iterations each\n", asked.threads, asked.iterations);
  std::printf("SleepPoints  %lld  %s\n", asked.sleep_points, sleep_points[asked.sleep_points]);
  std::printf("NumThActive  %lld\n", asked.active);
  for (const auto& note : notes) {
    std::printf("note: %s\n", note.c_str());
  }
  std::printf("\n");
  const moment_t began = now();
  asked.depth == 0 ? run_without_lock(asked) : way.run(asked);
  print_times(began);
}
