// catalogue: a starved writer, and its cure. Readers overlap, so that the catalogue is never unread; one writer publishes. With
// std::shared_mutex (glibc's reader-writer lock) the writer gets in when the readers have ended. holdup::shared_mutex keeps new readers
// out while a writer waits, which gets in after those that are in. 'holdup bench --workload rw --writers 1' measures the same.
#include <holdup.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "run.h"

namespace {

constexpr char usage[] =
    "usage: catalogue [LOCK [READERS [MILLISECONDS]]]\n"
    "  LOCK          holdup (holdup::shared_mutex), sharded (holdup::rw_sharded) or std (std::shared_mutex) [holdup]\n"
    "  READERS       threads that read, 1 to 64 [5]\n"
    "  MILLISECONDS  how long they read, 1 to 60000 [1000]\n"
    "example: catalogue std 5 2000\n";

using std::chrono::milliseconds;
using std::chrono::steady_clock;

template <class Lock>
struct catalogue {
  Lock lock;
  std::uint64_t version = 0;
  // The same in another place: a reader that sees two versions was let in beside the writer.
  std::uint64_t copy = 0;
};

template <class Lock>
void run(std::uint64_t count, std::uint64_t for_ms) {
  catalogue<Lock> shared;
  std::atomic<std::uint64_t> reads{0}, torn{0};
  std::uint64_t publications = 0;
  steady_clock::duration longest{};
  std::vector<std::thread> running;
  const moment_t began = now();
  const auto ends = steady_clock::now() + milliseconds(for_ms);
  for (std::uint64_t index = 0; index < count; ++index) {
    running.emplace_back([&, index] {
      // They begin one after the other, so that one is always in.
      std::this_thread::sleep_for(std::chrono::microseconds(9000 * index / count));
      while (steady_clock::now() < ends) {
        std::shared_lock hold(shared.lock);
        std::this_thread::sleep_for(milliseconds(9));  // A slow client is sent a page.
        reads += 1;
        torn += shared.version != shared.copy;
      }
    });
  }
  running.emplace_back([&] {
    while (steady_clock::now() < ends) {
      std::this_thread::sleep_for(milliseconds(20));
      const auto asked = steady_clock::now();
      std::unique_lock hold(shared.lock);
      longest = std::max(longest, steady_clock::now() - asked);
      shared.version += 1;
      std::this_thread::yield();
      shared.copy += 1;
      publications += 1;
    }
  });
  for (auto& thread : running) {
    thread.join();
  }
  must_be_equal("versions", shared.version, publications);
  must_be_equal("reads beside a writer", torn, 0);
  std::printf("reads         %8llu\n", static_cast<unsigned long long>(reads));
  std::printf("publications  %8llu, the longest wait for one %lld ms\n", static_cast<unsigned long long>(publications),
              static_cast<long long>(std::chrono::duration_cast<milliseconds>(longest).count()));
  print_times(began);
}

struct choice {
  const char* name;
  void (*run)(std::uint64_t, std::uint64_t);
};

const choice choices[] = {
    {"holdup", run<holdup::shared_mutex>},
    {"sharded", run<holdup::rw_sharded>},
    {"std", run<std::shared_mutex>},
};

}  // namespace

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "holdup";
  const auto readers = static_cast<std::uint64_t>(number(argc, argv, 2, "READERS", 1, 64, 5, usage));
  const auto for_ms = static_cast<std::uint64_t>(number(argc, argv, 3, "MILLISECONDS", 1, 60'000, 1'000, usage));
  const auto* chosen = std::find_if(std::begin(choices), std::end(choices),
                                    [&](const choice& each) { return std::strcmp(each.name, name) == 0; });
  if (argc > 4 || chosen == std::end(choices)) {
    std::fprintf(stderr, "LOCK is %s; it must be one of those below, with at most two numbers behind it\n%s", name, usage);
    return 2;
  }
  std::printf("Lock          %s\n", name);
  std::printf("Readers       %llu  for %llu ms\n\n", static_cast<unsigned long long>(readers),
              static_cast<unsigned long long>(for_ms));
  chosen->run(readers, for_ms);
}
