// lock_table: the ConcurrencyDemo of 2001. Threads read and update numbered entries of an in-memory database, first under one lock
// for all, then under a table of 256 locks picked by the entry's address. 'holdup bench --workload db' measures the same.
#include <holdup.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "run.h"

namespace {

constexpr char usage[] =
    "usage: lock_table [ENTRIES [ITERATIONS [NUMTHREADS...]]] [--csv FILE]\n"
    "  ENTRIES     entries of the database, 1 to 1000000 [1000]\n"
    "  ITERATIONS  operations in all, split evenly over the threads [10000]\n"
    "  NUMTHREADS  one or more numbers of threads, each 1 to 64 [1 2 4]\n"
    "  --csv FILE  also write a row per run, for a spreadsheet\n"
    "example: lock_table 1000 20000 1 2 4 8 --csv demo.csv\n";

// A read takes about 20 us and an update 200 us under the entry's lock; one operation in ten is an update.
constexpr std::uint64_t read_us = 20, update_us = 200, read_percent = 90;

// An entry's text, as words. Every update writes all of them; a reader that finds them unequal was not alone.
struct alignas(64) entry {
  std::array<std::uint64_t, 8> words{};

  bool read(std::uint64_t steps) const {
    std::array<std::uint64_t, 8> copy{};
    std::copy(words.begin(), words.begin() + 4, copy.begin());
    work(steps);
    std::copy(words.begin() + 4, words.end(), copy.begin() + 4);
    return copy == decltype(copy){copy[0], copy[0], copy[0], copy[0], copy[0], copy[0], copy[0], copy[0]};
  }

  void update(std::uint64_t steps) {
    const std::uint64_t next = words[0] + 1;
    std::fill(words.begin() + 4, words.end(), next);
    work(steps);
    std::fill(words.begin(), words.begin() + 4, next);
  }
};

struct tally {
  std::uint64_t operations = 0, updates = 0, torn = 0;
};

// Work steps in a microsecond: those of the fastest of several short runs.
std::uint64_t steps_per_us() {
  constexpr std::uint64_t steps = 20'000;
  auto fastest = std::chrono::nanoseconds::max();
  for (int run = 0; run < 25; ++run) {
    const auto began = std::chrono::steady_clock::now();
    work(steps);
    fastest = std::min<std::chrono::nanoseconds>(fastest, std::chrono::steady_clock::now() - began);
  }
  return std::max<std::uint64_t>(1, steps * 1000 / static_cast<std::uint64_t>(std::max<long long>(1, fastest.count())));
}

// The file of --csv with its header; a file that cannot be written ends the program.
std::FILE* csv_file(const char* path) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot write %s\n%s", path, usage);
    std::exit(2);
  }
  std::fprintf(file, "threads,lock,entries,operations,elapsed_s,operations_per_s\n");
  return file;
}

// One run: `guard_of(entry)` holds whatever lock is the entry's.
template <class GuardOf>
void run(const char* what, std::size_t entries, std::uint64_t iterations, std::uint64_t threads, std::FILE* csv,
         GuardOf guard_of) {
  std::vector<entry> database(entries);
  std::vector<tally> tallies(threads);
  std::vector<std::thread> running;
  const std::uint64_t us = steps_per_us();
  const moment_t began = now();
  for (std::uint64_t index = 0; index < threads; ++index) {
    running.emplace_back([&, index] {
      random_t random = random_stream(index);
      tally mine;
      // The remainder goes to the first threads.
      const std::uint64_t share = iterations / threads + (index < iterations % threads);
      for (; mine.operations < share; ++mine.operations) {
        entry& chosen = database[random_below(&random, entries)];
        const bool reads = random_below(&random, 100) < read_percent;
        auto guard = guard_of(chosen);
        if (reads) {
          mine.torn += !chosen.read(read_us * us);
        } else {
          chosen.update(update_us * us);
          ++mine.updates;
        }
      }
      tallies[index] = mine;
    });
  }
  for (auto& thread : running) {
    thread.join();
  }
  const moment_t ended = now();
  tally all;
  for (std::uint64_t index = 0; index < threads; ++index) {
    all.operations += tallies[index].operations;
    all.updates += tallies[index].updates;
    all.torn += tallies[index].torn;
  }
  std::uint64_t found = 0;
  for (const auto& entry : database) {
    found += entry.words[0];
  }
  must_be_equal("updates in the entries", found, all.updates);
  must_be_equal("reads of half-written entries", all.torn, 0);
  std::printf("\nNumThreads   %llu  %s: %llu operations, %llu updates\n", static_cast<unsigned long long>(threads), what,
              static_cast<unsigned long long>(all.operations), static_cast<unsigned long long>(all.updates));
  print_times(began);
  if (csv != nullptr) {
    const double elapsed_s = seconds_between(began, ended);
    std::fprintf(csv, "%llu,%s,%zu,%llu,%.6f,%.1f\n", static_cast<unsigned long long>(threads), what, entries,
                 static_cast<unsigned long long>(all.operations), elapsed_s, static_cast<double>(all.operations) / elapsed_s);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::FILE* csv = nullptr;
  if (argc > 2 && std::strcmp(argv[argc - 2], "--csv") == 0) {
    csv = csv_file(argv[argc - 1]);
    argc -= 2;
  }
  const auto entries = static_cast<std::size_t>(number(argc, argv, 1, "ENTRIES", 1, 1'000'000, 1000, usage));
  const auto iterations = static_cast<std::uint64_t>(number(argc, argv, 2, "ITERATIONS", 0, 1'000'000'000, 10'000, usage));
  std::vector<std::uint64_t> counts;
  for (int index = 3; index < argc; ++index) {
    counts.push_back(static_cast<std::uint64_t>(number(argc, argv, index, "NUMTHREADS", 1, 64, 1, usage)));
  }
  if (counts.empty()) {
    counts = {1, 2, 4};
  }
  std::printf("Entries      %zu\n", entries);
  std::printf("Iterations   %llu  in all\n", static_cast<unsigned long long>(iterations));
  std::printf("Mix          %llu:%llu  reads of %llu us, updates of %llu us\n", static_cast<unsigned long long>(read_percent),
              static_cast<unsigned long long>(100 - read_percent), static_cast<unsigned long long>(read_us),
              static_cast<unsigned long long>(update_us));
  for (const auto threads : counts) {
    holdup::mutex one;
    run("one lock", entries, iterations, threads, csv, [&](const entry&) { return std::unique_lock(one); });
    holdup::lock_table table;
    run("lock table", entries, iterations, threads, csv,
        [&](const entry& chosen) { return table.lock(holdup::key_of(chosen)); });
  }
  if (csv != nullptr && std::fclose(csv) != 0) {
    std::perror("the file of --csv");
    return 1;
  }
}
