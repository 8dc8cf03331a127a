// What holdup.hpp promises: the locks in the hands of std's own tools, and the techniques.
#include <holdup.hpp>

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "check.h"

namespace {

using namespace std::chrono_literals;

#if defined(__cpp_constinit)
#define CONSTINIT constinit
#else
#define CONSTINIT
#endif

// No code runs before main for these; a C++20 compiler proves it.
CONSTINIT holdup::mutex static_mutex;
CONSTINIT holdup::mcs static_mcs;
CONSTINIT holdup::clh static_clh;
CONSTINIT holdup::eventfd static_eventfd;
CONSTINIT holdup::recursive<holdup::mutex> static_recursive;
CONSTINIT holdup::shared_mutex static_shared;
CONSTINIT holdup::gate static_gate{2};
CONSTINIT holdup::sharded_counter static_counter;

template <class T>
constexpr bool stays_put = !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
                           !std::is_move_constructible_v<T> && !std::is_move_assignable_v<T>;
static_assert(stays_put<holdup::mutex> && stays_put<holdup::gate> && stays_put<holdup::lock_table>);
static_assert(stays_put<holdup::sharded_counter> && stays_put<holdup::chunks> && stays_put<holdup::gate::pass>);
static_assert(stays_put<holdup::recursive<holdup::fair>>);
static_assert(std::is_nothrow_default_constructible_v<holdup::mutex>);
static_assert(noexcept(static_mutex.lock()) && noexcept(static_mutex.unlock()) && noexcept(static_mutex.try_lock()));
static_assert(noexcept(static_mutex.try_lock_for(std::declval<const std::chrono::milliseconds&>())));
static_assert(stays_put<holdup::shared_mutex> && sizeof(holdup::shared_mutex) == 24 && alignof(holdup::rw_sharded) == 128);
static_assert(noexcept(static_shared.lock_shared()) && noexcept(static_shared.try_lock_shared()));
static_assert(sizeof(holdup::mutex) == 16 && sizeof(holdup::gate) == 24);
static_assert(alignof(holdup::sharded_counter) == 128);
static_assert(std::is_move_constructible_v<holdup::lock_table::guard> && !std::is_copy_constructible_v<holdup::lock_table::guard>);

template <class Body>
void in_threads(int threads, Body body) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back(body, i);
  }
  for (auto& thread : running) {
    thread.join();
  }
}

template <class Lock>
void excludes(Lock& lock) {
  long count = 0;
  in_threads(2, [&](int) {
    for (int i = 0; i < 1000; ++i) {
      std::lock_guard hold(lock);
      ++count;
    }
  });
  CHECK(count == 2000);
  std::unique_lock hold(lock, std::try_to_lock);
  CHECK(hold.owns_lock());
  std::thread([&] { CHECK(!std::unique_lock(lock, std::try_to_lock).owns_lock()); }).join();
}

// std::shared_lock takes it for reading, std::unique_lock for writing; readers see whole pairs.
template <class Lock>
void readers_share(Lock& lock) {
  {
    std::shared_lock hold(lock);
    std::thread([&] {
      CHECK(std::shared_lock(lock, std::try_to_lock).owns_lock());
      CHECK(std::shared_lock(lock, 1h).owns_lock());
      CHECK(!std::unique_lock(lock, std::try_to_lock).owns_lock());
      CHECK(!std::unique_lock(lock, 2ms).owns_lock());
    }).join();
  }
  {
    std::unique_lock hold(lock);
    std::thread([&] {
      CHECK(!std::shared_lock(lock, std::try_to_lock).owns_lock());
      const auto began = std::chrono::steady_clock::now();
      CHECK(!std::shared_lock(lock, 3ms).owns_lock());
      CHECK(std::chrono::steady_clock::now() - began >= 3ms);
      CHECK(!std::shared_lock(lock, std::chrono::system_clock::now() + 2ms).owns_lock());
    }).join();
  }
  std::array<long, 2> pair{};
  in_threads(4, [&](int number) {
    for (int i = 0; i < 1000; ++i) {
      if (number < 2) {
        std::lock_guard hold(lock);
        ++pair[0];
        ++pair[1];
      } else {
        std::shared_lock hold(lock);
        CHECK(pair[0] == pair[1]);
      }
    }
  });
  CHECK(pair[0] == 2000 && pair[1] == 2000);
}

// Two threads take both locks in opposite orders, again and again; std::scoped_lock backs out by try_lock.
template <class First, class Second>
void scoped_lock_takes_both(First& first, Second& second) {
  long count = 0;
  in_threads(2, [&](int number) {
    for (int i = 0; i < 2000; ++i) {
      if (number == 0) {
        std::scoped_lock both(first, second);
        ++count;
      } else {
        std::scoped_lock both(second, first);
        ++count;
      }
    }
  });
  CHECK(count == 4000);
}

// A clock of one's own, as chrono allows.
struct slow_clock {
  using duration = std::chrono::duration<double, std::milli>;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<slow_clock>;
  static constexpr bool is_steady = false;
  static time_point now() { return time_point(std::chrono::steady_clock::now().time_since_epoch() / 2.0); }
};

template <class Lock>
void times_out(Lock& lock) {
  {
    std::unique_lock hold(lock, 3ms);
    CHECK(hold.owns_lock());
    std::thread([&] {
      const auto began = std::chrono::steady_clock::now();
      CHECK(!std::unique_lock(lock, 3ms).owns_lock());
      CHECK(std::chrono::steady_clock::now() - began >= 3ms);
      CHECK(!std::unique_lock(lock, std::chrono::steady_clock::now() + 2ms).owns_lock());
      CHECK(!std::unique_lock(lock, std::chrono::system_clock::now() + 2ms).owns_lock());
      CHECK(!std::unique_lock(lock, std::chrono::system_clock::now() - 1h).owns_lock());
      const auto slow = slow_clock::now() + slow_clock::duration(1.5);
      CHECK(!std::unique_lock(lock, slow).owns_lock());
      CHECK(slow_clock::now() >= slow);
      CHECK(!lock.try_lock_for(-5h));
      CHECK(!lock.try_lock_for(std::chrono::duration<double>(0.001)));
    }).join();
  }
  std::unique_lock hold(lock);
  std::thread waiter([&] {
    CHECK(lock.try_lock_for(std::chrono::hours::max()));
    lock.unlock();
    CHECK(lock.try_lock_until(std::chrono::steady_clock::time_point::max()));
    lock.unlock();
  });
  hold.unlock();
  waiter.join();
}

template <class Lock>
void recursion(Lock& lock) {
  lock.lock();
  CHECK(lock.try_lock());
  lock.lock();
  for (int level = 0; level < 3; ++level) {
    std::thread([&] { CHECK(!lock.try_lock()); }).join();
    lock.unlock();
  }
  std::thread([&] {
    CHECK(lock.try_lock());
    lock.unlock();
  }).join();
  excludes(lock);
}

void condition_variable_any_carries_all() {
  holdup::mutex lock;
  std::condition_variable_any filled, emptied;
  std::deque<int> queue;
  long long sum = 0;
  constexpr int items = 3000;
  std::thread producer([&] {
    for (int item = 1; item <= items; ++item) {
      std::unique_lock hold(lock);
      emptied.wait(hold, [&] { return queue.size() < 4; });
      queue.push_back(item);
      filled.notify_one();
    }
  });
  std::thread consumer([&] {
    for (int taken = 0; taken < items; ++taken) {
      std::unique_lock hold(lock);
      CHECK(filled.wait_for(hold, 600s, [&] { return !queue.empty(); }));
      sum += queue.front();
      queue.pop_front();
      emptied.notify_one();
    }
  });
  producer.join();
  consumer.join();
  CHECK(sum == static_cast<long long>(items) * (items + 1) / 2);
}

void table_takes_many_without_deadlock() {
  holdup::lock_table table(5);
  std::array<long, 12> balances{};
  in_threads(8, [&](int number) {
    std::uint64_t random = static_cast<std::uint64_t>(number) + 7;
    for (int i = 0; i < 400; ++i) {
      std::vector<std::uint64_t> keys;
      std::array<std::size_t, 4> at{};
      for (auto& index : at) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        index = (random >> 40) % balances.size();
        keys.push_back(holdup::key_of(balances[index]));
      }
      auto hold = table.lock_many(keys);
      CHECK(hold.locks() >= 1 && hold.locks() <= 4);
      balances[at[0]] += 3;
      for (std::size_t other = 1; other < at.size(); ++other) {
        --balances[at[other]];
      }
    }
  });
  CHECK(std::accumulate(balances.begin(), balances.end(), 0L) == 0);
}

void table_guards_hold_and_move() {
  holdup::lock_table table;
  CHECK(table.locks() == 256);
  const std::uint64_t key = holdup::key_of_text("alice");
  auto taken_elsewhere = [&] {
    bool taken = false;
    std::thread([&] { taken = !table.try_lock(key); }).join();
    return taken;
  };
  {
    auto first = table.lock(key);
    auto second = std::move(first);
    CHECK(!first.owns_lock() && second && taken_elsewhere());
    second.unlock();
    CHECK(!taken_elsewhere());
    second = table.try_lock_for(key, 1ms);
    CHECK(second && taken_elsewhere());
    std::thread([&] { CHECK(!table.try_lock_for(key, 1ms)); }).join();
  }
  CHECK(!taken_elsewhere());
  {
    auto many = table.lock_many({key, key, 17});
    CHECK(many.locks() == (table.slot(key) == table.slot(17) ? 1 : 2) && taken_elsewhere());
    auto moved = std::move(many);
    CHECK(many.locks() == 0);
    moved.unlock();
    CHECK(!taken_elsewhere());
  }
  {
    auto all = table.lock_all();
    CHECK(taken_elsewhere());
  }
  CHECK(!taken_elsewhere());
  for (std::size_t wrong : {std::size_t{0}, SIZE_MAX}) {
    try {
      holdup::lock_table none(wrong);
      CHECK(!"made");
    } catch (const std::invalid_argument&) {
    }
  }
}

void gate_bounds() {
  std::atomic<int> inside{0}, most{0}, passed{0};
  in_threads(6, [&](int) {
    for (int i = 0; i < 200; ++i) {
      holdup::gate::pass pass(static_gate);
      const int now = ++inside;
      int seen = most.load();
      while (seen < now && !most.compare_exchange_weak(seen, now)) {
      }
      ++passed;
      std::this_thread::yield();
      --inside;
    }
  });
  CHECK(passed == 1200 && most <= 2 && static_gate.present() == 0 && static_gate.limit() == 2);
  CHECK(static_gate.try_enter());
  holdup::gate::pass adopted(static_gate, std::adopt_lock);
  CHECK(static_gate.present() == 1);
}

void counter_sums() {
  in_threads(4, [](int number) {
    for (int i = 0; i < 1000; ++i) {
      static_counter += number;
      ++static_counter;
      --static_counter;
      static_counter -= 1;
    }
  });
  CHECK(static_counter.sum() == 1000 * (0 + 1 + 2 + 3) - 4000);
  CHECK(static_counter.take() == 2000 && static_counter.sum() == 0);
}

void chunks_cover_once() {
  for (bool guided : {false, true}) {
    holdup::chunks loop = guided ? holdup::chunks::guided(3, 5000, 4, 6) : holdup::chunks::fixed(3, 5000, 6);
    std::vector<unsigned char> claimed(5000);
    in_threads(4, [&](int) {
      for (const holdup::chunks::chunk& part : loop) {
        CHECK(part.size() > 0);
        for (std::uint64_t index : part) {
          ++claimed[index];
        }
      }
    });
    CHECK(std::accumulate(claimed.begin(), claimed.end(), 0) == 4997);
    CHECK(claimed[0] + claimed[1] + claimed[2] == 0);
    for (std::size_t index = 3; index < claimed.size(); ++index) {
      CHECK(claimed[index] == 1);
    }
    CHECK(loop.begin() == loop.end());
  }
}

template <class... Locks>
void all_exclude(Locks&&... locks) {
  (excludes(locks), ...);
}

template <class... Locks>
void all_time_out(Locks&&... locks) {
  (times_out(locks), ...);
}

}  // namespace

int main() {
  all_exclude(static_mutex, static_mcs, static_clh, static_eventfd);
  all_exclude(holdup::tas(), holdup::ttas(), holdup::ticket(), holdup::ticket_spin(), holdup::mcs_spin(),
              holdup::clh_spin(), holdup::futex(), holdup::fair(), holdup::eventfd_sem(), holdup::sysv_sem(),
              holdup::futex_pi(), holdup::pipe());
  all_time_out(static_mutex, static_eventfd);
  all_time_out(holdup::tas(), holdup::ttas(), holdup::futex(), holdup::eventfd_sem(), holdup::sysv_sem(),
               holdup::futex_pi(), holdup::pipe(), holdup::recursive<holdup::mutex>());
  holdup::rw_sharded sharded;
  all_exclude(static_shared, sharded);
  all_time_out(static_shared, sharded);
  readers_share(static_shared);
  readers_share(sharded);
  holdup::mutex other;
  scoped_lock_takes_both(static_mutex, other);
  scoped_lock_takes_both(static_mutex, static_mcs);
  recursion(static_recursive);
  holdup::recursive<holdup::fair> fair;
  recursion(fair);
  condition_variable_any_carries_all();
  table_takes_many_without_deadlock();
  table_guards_hold_and_move();
  gate_bounds();
  counter_sums();
  chunks_cover_once();
  std::puts("all conform");
}
