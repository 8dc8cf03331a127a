// Does ThreadSanitizer still find a race beside the locks? Each way of this program has one, but "guarded" has none.
#include <holdup.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <thread>

namespace {

long shared_word;
holdup::mutex lock;
holdup::shared_mutex shared_lock;
holdup::rw_sharded sharded_lock;
holdup::gate gate(1);
holdup::lock_table table(4);

// The first key that meets another lock than key 0.
std::uint64_t other_key() {
  std::uint64_t key = 1;
  while (table.slot(key) == table.slot(0)) {
    ++key;
  }
  return key;
}

template <class First, class Second>
void both(First first, Second second) {
  std::thread one([&] { first(); });
  std::thread two([&] { second(); });
  one.join();
  two.join();
}

}  // namespace

int main(int argc, char** argv) {
  const char* way = argc == 2 ? argv[1] : "";
  auto bare = [] { ++shared_word; };
  auto locked = [] {
    std::lock_guard hold(lock);
    ++shared_word;
  };
  auto timed = [] {
    if (lock.try_lock_for(std::chrono::hours(1))) {
      ++shared_word;
      lock.unlock();
    }
  };
  auto reads = [](auto& guarded) {
    return [&guarded] {
      std::shared_lock hold(guarded);
      if (shared_word < 0) {
        std::abort();
      }
    };
  };
  auto writes = [](auto& guarded) {
    return [&guarded] {
      std::lock_guard hold(guarded);
      ++shared_word;
    };
  };
  auto gated = [] {
    holdup::gate::pass pass(gate);
    ++shared_word;
  };
  auto keyed = [](std::uint64_t key) {
    return [key] {
      auto hold = table.lock(key);
      ++shared_word;
    };
  };
  if (std::strcmp(way, "guarded") == 0) {
    both(locked, timed);
    both(reads(shared_lock), writes(shared_lock));
    both(reads(sharded_lock), writes(sharded_lock));
    both(gated, gated);
    both(keyed(0), [] {
      auto hold = table.lock_many({0, other_key()});
      ++shared_word;
    });
  } else if (std::strcmp(way, "lock") == 0) {
    both(locked, bare);
  } else if (std::strcmp(way, "reader") == 0) {
    both(reads(shared_lock), bare);
  } else if (std::strcmp(way, "gate") == 0) {
    both(gated, bare);
  } else if (std::strcmp(way, "table") == 0) {
    both(keyed(0), keyed(other_key()));
  } else if (std::strcmp(way, "double-unlock") == 0) {
    // ThreadSanitizer's own checks of a lock's use work too.
    lock.lock();
    lock.unlock();
    lock.unlock();
  } else {
    std::fputs("usage: race guarded|lock|reader|gate|table|double-unlock\n", stderr);
    return 2;
  }
  std::printf("%ld\n", shared_word);
}
