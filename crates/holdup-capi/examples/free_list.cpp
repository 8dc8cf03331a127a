// free_list: the kernel of 2009. Threads pop nodes from one shared list and push them back, each time under one lock, as in an
// allocator. 'holdup bench --workload free-list' measures the same.
#include <holdup.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "run.h"

namespace {

constexpr char usage[] =
    "usage: free_list [LOCK [NUMTHREADS [ITERATIONS]]]\n"
    "  LOCK        adaptive, ttas, ticket, mcs, futex, fair or eventfd [adaptive]\n"
    "  NUMTHREADS  threads, 1 to 64 [2]\n"
    "  ITERATIONS  operations of each thread [1000000]\n"
    "example: free_list eventfd 4 100000\n";

struct alignas(128) node {
  node* next = nullptr;
};

// A list that a lock guards.
template <class Lock>
class free_list {
 public:
  explicit free_list(std::size_t nodes) : nodes_(nodes) {
    for (auto& node : nodes_) {
      push(&node);
    }
  }

  node* pop() {
    std::lock_guard hold(lock_);
    return first_ == nullptr ? nullptr : std::exchange(first_, first_->next);
  }

  void push(node* node) {
    std::lock_guard hold(lock_);
    node->next = std::exchange(first_, node);
  }

  // How many nodes are in the list; each is counted once, or the list is damaged.
  std::size_t walk() const {
    std::set<const node*> seen;
    for (const node* at = first_; at != nullptr && seen.insert(at).second; at = at->next) {
    }
    return seen.size();
  }

 private:
  Lock lock_;
  node* first_ = nullptr;
  std::vector<node> nodes_;
};

template <class Lock>
void run(std::uint64_t threads, std::uint64_t iterations) {
  const std::size_t nodes = threads * 4;
  free_list<Lock> list(nodes);
  std::vector<std::uint64_t> done(threads), held(threads);
  std::vector<std::thread> running;
  const moment_t began = now();
  for (std::uint64_t index = 0; index < threads; ++index) {
    running.emplace_back([&, index] {
      node* mine = nullptr;
      for (std::uint64_t i = 0; i < iterations; ++i) {
        if (mine == nullptr) {
          mine = list.pop();
        } else {
          list.push(std::exchange(mine, nullptr));
        }
      }
      done[index] = iterations;
      held[index] = mine != nullptr;
    });
  }
  std::uint64_t operations = 0, out = 0;
  for (std::uint64_t index = 0; index < threads; ++index) {
    running[index].join();
    operations += done[index];
    out += held[index];
  }
  must_be_equal("nodes of the free list", list.walk() + out, nodes);
  std::printf("operations  %8llu\n", static_cast<unsigned long long>(operations));
  print_times(began);
}

struct choice {
  const char* name;
  void (*run)(std::uint64_t, std::uint64_t);
};

const choice choices[] = {
    {"adaptive", run<holdup::adaptive>}, {"ttas", run<holdup::ttas>}, {"ticket", run<holdup::ticket>},
    {"mcs", run<holdup::mcs>},           {"futex", run<holdup::futex>}, {"fair", run<holdup::fair>},
    {"eventfd", run<holdup::eventfd>},
};

}  // namespace

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "adaptive";
  const auto threads = static_cast<std::uint64_t>(number(argc, argv, 2, "NUMTHREADS", 1, 64, 2, usage));
  const auto iterations = static_cast<std::uint64_t>(number(argc, argv, 3, "ITERATIONS", 0, 1'000'000'000, 1'000'000, usage));
  const auto* chosen = std::find_if(std::begin(choices), std::end(choices),
                                    [&](const choice& each) { return std::strcmp(each.name, name) == 0; });
  if (argc > 4 || chosen == std::end(choices)) {
    std::fprintf(stderr, "LOCK is %s; it must be one of those below, with at most two numbers behind it\n%s", name, usage);
    return 2;
  }
  std::printf("Lock         %s\n", name);
  std::printf("NumThreads   %llu  %llu iterations each\n\n", static_cast<unsigned long long>(threads),
              static_cast<unsigned long long>(iterations));
  chosen->run(threads, iterations);
}
