// holdup.hpp: the locks and techniques of holdup-locks for C++17 and later.
//
// | trouble                                                     | cure here                                        |
// |-------------------------------------------------------------|--------------------------------------------------|
// | a lock that is fast alone and in a crowd and starves nobody | holdup::mutex                                    |
// | a lock per object is too much, or objects come and go       | holdup::lock_table: a key picks one of 256 locks |
// | more active threads than the machine bears                  | holdup::gate                                     |
// | a counter that every thread adds to                         | holdup::sharded_counter                          |
// | a parallel loop that fights for its next index              | holdup::chunks                                   |
//
// Every lock here is a Lockable, those with timed tries are TimedLockables: std::lock_guard, std::unique_lock, std::scoped_lock (also
// of several at once), std::lock and std::condition_variable_any take them. A lock with static storage is initialised by the compiler:
// no code runs before main, and the order of initialisation does not matter.
//
// The rules of holdup.h hold: the thread that locked unlocks; locks are not recursive (holdup::recursive<L> is); a lock is destroyed
// only after the last unlock of every thread has returned. A library with checks reports misuse and aborts; nothing here throws
// unless it says so.
//
// Each operation is one call of a function of holdup.h, whose comments tell what it costs. Under -fsanitize=thread these functions
// tell ThreadSanitizer what they do.
#ifndef HOLDUP_HPP
#define HOLDUP_HPP

#include <holdup.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace holdup {

namespace detail {

// Nanoseconds to wait, rounded up so that no try ends early; 0 if there are none. 292 years are for ever.
template <class Rep, class Period>
constexpr std::uint64_t nanoseconds_up(const std::chrono::duration<Rep, Period>& time) {
  using std::chrono::nanoseconds;
  using exact = std::chrono::duration<long double, std::nano>;
  if (!(time > std::chrono::duration<Rep, Period>::zero())) {
    return 0;
  }
  if (exact(time) >= exact(nanoseconds::max())) {
    return UINT64_MAX;
  }
  return static_cast<std::uint64_t>(std::chrono::ceil<nanoseconds>(time).count());
}

// `try_for_ns` until it succeeds or the deadline has passed on its own clock. A clock that can be set is looked at often.
template <class Clock, class Duration, class TryForNs>
bool try_until(const std::chrono::time_point<Clock, Duration>& deadline, TryForNs try_for_ns) {
  constexpr std::uint64_t longest_ns = Clock::is_steady ? UINT64_MAX : 50'000'000;
  for (;;) {
    if (try_for_ns(std::min(nanoseconds_up(deadline - Clock::now()), longest_ns))) {
      return true;
    }
    if (Clock::now() >= deadline) {
      return false;
    }
  }
}

// Throws because a table of so many locks cannot be; a program without exceptions ends.
[[noreturn]] inline void no_table(std::size_t locks) {
#if defined(__cpp_exceptions)
  if (locks == 0 || locks > std::size_t{1} << 20) {
    throw std::invalid_argument("holdup::lock_table: the number of locks must be 1 to 1048576");
  }
  throw std::bad_alloc();
#else
  std::fprintf(stderr, "holdup::lock_table: no table of %zu locks: it must be 1 to 1048576, and fit in memory\n", locks);
  std::abort();
#endif
}

// An address that no other living thread has.
inline const void* this_thread() noexcept {
  static thread_local const char mark = 0;
  return &mark;
}

// The functions of one lock, as static members of a type.
#define HOLDUP_LOCK_API(id, ID)                                                        \
  struct id##_api {                                                                    \
    using type = holdup_##id##_t;                                                      \
    static constexpr type init = HOLDUP_##ID##_INIT;                                   \
    static void destroy(type* lock) noexcept { holdup_##id##_destroy(lock); }          \
    static void lock(type* lock) noexcept { holdup_##id##_lock(lock); }                \
    static bool try_lock(type* lock) noexcept { return holdup_##id##_try_lock(lock); } \
    static void unlock(type* lock) noexcept { holdup_##id##_unlock(lock); }

#define HOLDUP_UNTIMED_LOCK(id, ID) \
  HOLDUP_LOCK_API(id, ID)           \
  }

#define HOLDUP_TIMED_LOCK(id, ID)                                        \
  HOLDUP_LOCK_API(id, ID)                                                \
    static bool try_lock_for_ns(type* lock, std::uint64_t ns) noexcept { \
      return holdup_##id##_try_lock_for_ns(lock, ns);                    \
    }                                                                    \
  }

HOLDUP_TIMED_LOCK(adaptive, ADAPTIVE);
HOLDUP_TIMED_LOCK(tas, TAS);
HOLDUP_TIMED_LOCK(ttas, TTAS);
HOLDUP_UNTIMED_LOCK(ticket, TICKET);
HOLDUP_UNTIMED_LOCK(ticket_spin, TICKET_SPIN);
HOLDUP_UNTIMED_LOCK(mcs, MCS);
HOLDUP_UNTIMED_LOCK(mcs_spin, MCS_SPIN);
HOLDUP_UNTIMED_LOCK(clh, CLH);
HOLDUP_UNTIMED_LOCK(clh_spin, CLH_SPIN);
HOLDUP_TIMED_LOCK(futex, FUTEX);
HOLDUP_UNTIMED_LOCK(fair, FAIR);
HOLDUP_TIMED_LOCK(eventfd, EVENTFD);
HOLDUP_TIMED_LOCK(eventfd_sem, EVENTFD_SEM);
HOLDUP_TIMED_LOCK(sysv_sem, SYSV_SEM);
HOLDUP_TIMED_LOCK(futex_pi, FUTEX_PI);
HOLDUP_TIMED_LOCK(pipe, PIPE);

// The functions of one reader-writer lock.
#define HOLDUP_SHARED_LOCK(id, ID)                                                                   \
  HOLDUP_LOCK_API(id, ID)                                                                            \
    static bool try_lock_for_ns(type* lock, std::uint64_t ns) noexcept {                             \
      return holdup_##id##_try_lock_for_ns(lock, ns);                                                \
    }                                                                                                \
    static void lock_shared(type* lock) noexcept { holdup_##id##_lock_shared(lock); }                \
    static bool try_lock_shared(type* lock) noexcept { return holdup_##id##_try_lock_shared(lock); } \
    static bool try_lock_shared_for_ns(type* lock, std::uint64_t ns) noexcept {                      \
      return holdup_##id##_try_lock_shared_for_ns(lock, ns);                                         \
    }                                                                                                \
    static void unlock_shared(type* lock) noexcept { holdup_##id##_unlock_shared(lock); }            \
  }

HOLDUP_SHARED_LOCK(rw_adaptive, RW_ADAPTIVE);
HOLDUP_SHARED_LOCK(rw_sharded, RW_SHARDED);

#undef HOLDUP_LOCK_API
#undef HOLDUP_UNTIMED_LOCK
#undef HOLDUP_TIMED_LOCK
#undef HOLDUP_SHARED_LOCK

}  // namespace detail

// A lock made of the functions of holdup.h in Api: a Lockable. One with static storage ends after main, as every static object: threads
// that still use it then are misuse.
template <class Api>
class basic_lock {
 public:
  using native_handle_type = typename Api::type*;

  constexpr basic_lock() noexcept = default;
  basic_lock(const basic_lock&) = delete;
  basic_lock& operator=(const basic_lock&) = delete;
  ~basic_lock() { Api::destroy(&raw_); }

  // Waits for the lock.
  void lock() noexcept { Api::lock(&raw_); }

  // Takes the lock if that is possible at once.
  [[nodiscard]] bool try_lock() noexcept { return Api::try_lock(&raw_); }

  // Releases the lock, which the calling thread holds.
  void unlock() noexcept { Api::unlock(&raw_); }

  // The lock for functions of holdup.h.
  native_handle_type native_handle() noexcept { return &raw_; }

 protected:
  typename Api::type raw_ = Api::init;
};

// A lock whose tries can wait for a time: a TimedLockable.
template <class Api>
class basic_timed_lock : public basic_lock<Api> {
 public:
  // Takes the lock if that is possible within `time`; never gives up before.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& time) noexcept {
    return Api::try_lock_for_ns(&this->raw_, detail::nanoseconds_up(time));
  }

  // Takes the lock if that is possible before `deadline`, on any clock.
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return detail::try_until(deadline, [&](std::uint64_t ns) { return Api::try_lock_for_ns(&this->raw_, ns); });
  }
};

// A lock that readers share, as std::shared_timed_mutex: std::shared_lock takes it for reading, std::unique_lock for writing. Readers
// and writers take turns, so neither starves. A thread that reads must not take it again.
template <class Api>
class basic_shared_lock : public basic_timed_lock<Api> {
 public:
  // Waits for the lock, for reading.
  void lock_shared() noexcept { Api::lock_shared(&this->raw_); }

  // Takes the lock for reading if that is possible at once.
  [[nodiscard]] bool try_lock_shared() noexcept { return Api::try_lock_shared(&this->raw_); }

  // Releases the lock, which the calling thread has for reading.
  void unlock_shared() noexcept { Api::unlock_shared(&this->raw_); }

  // Takes the lock for reading if that is possible within `time`; never gives up before.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& time) noexcept {
    return Api::try_lock_shared_for_ns(&this->raw_, detail::nanoseconds_up(time));
  }

  // Takes the lock for reading if that is possible before `deadline`, on any clock.
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return detail::try_until(deadline, [&](std::uint64_t ns) { return Api::try_lock_shared_for_ns(&this->raw_, ns); });
  }
};

// The locks of `holdup list locks`; holdup.h tells of each what it costs and what it is not for.
using adaptive = basic_timed_lock<detail::adaptive_api>;
using tas = basic_timed_lock<detail::tas_api>;
using ttas = basic_timed_lock<detail::ttas_api>;
using ticket = basic_lock<detail::ticket_api>;
using ticket_spin = basic_lock<detail::ticket_spin_api>;
using mcs = basic_lock<detail::mcs_api>;
using mcs_spin = basic_lock<detail::mcs_spin_api>;
using clh = basic_lock<detail::clh_api>;
using clh_spin = basic_lock<detail::clh_spin_api>;
using futex = basic_timed_lock<detail::futex_api>;
using fair = basic_lock<detail::fair_api>;
using eventfd = basic_timed_lock<detail::eventfd_api>;
using eventfd_sem = basic_timed_lock<detail::eventfd_sem_api>;
using sysv_sem = basic_timed_lock<detail::sysv_sem_api>;
using futex_pi = basic_timed_lock<detail::futex_pi_api>;
using pipe = basic_timed_lock<detail::pipe_api>;
using rw_adaptive = basic_shared_lock<detail::rw_adaptive_api>;
using rw_sharded = basic_shared_lock<detail::rw_sharded_api>;

// The lock for general use: 8 bytes. One compare-exchange to lock and one atomic add to unlock while nobody else wants it; spins for
// as long as spinning has paid, then sleeps; whoever has waited for a millisecond is next. Not for strict order (holdup::fair), nor
// between processes.
using mutex = adaptive;

// The reader-writer lock for general use: 16 bytes. A writer waits at most for the readers that are in, readers for one writer. Not
// for sections as short as a lock should have, where holdup::mutex costs as much; where reading must scale, holdup::rw_sharded.
using shared_mutex = rw_adaptive;

// Any lock, recursive: the thread that holds it may lock it again, and unlocks it as often. Adds 16 bytes and an access to
// thread-local storage. Not for code that can be arranged so that the lock is taken once.
template <class Lock>
class recursive {
 public:
  constexpr recursive() noexcept = default;
  recursive(const recursive&) = delete;
  recursive& operator=(const recursive&) = delete;

  // Takes the lock, or takes it once more.
  void lock() noexcept {
    if (!deepen()) {
      lock_.lock();
      own();
    }
  }

  // Takes the lock if it is free or the caller's.
  [[nodiscard]] bool try_lock() noexcept { return deepen() || own_if(lock_.try_lock()); }

  // Takes the lock if it is, or becomes, free or the caller's within `time`.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& time) noexcept {
    return deepen() || own_if(lock_.try_lock_for(time));
  }

  // Takes the lock if it is, or becomes, free or the caller's before `deadline`.
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return deepen() || own_if(lock_.try_lock_until(deadline));
  }

  // Releases one level.
  void unlock() noexcept {
    if (--depth_ == 0) {
      owner_.store(nullptr, std::memory_order_relaxed);
      lock_.unlock();
    }
  }

 private:
  // `owner_` is written by the holder alone, so a thread that finds itself there holds the lock; what others wrote only differs.
  bool deepen() noexcept {
    if (owner_.load(std::memory_order_relaxed) != detail::this_thread()) {
      return false;
    }
    ++depth_;
    return true;
  }

  bool own_if(bool taken) noexcept {
    if (taken) {
      own();
    }
    return taken;
  }

  void own() noexcept {
    depth_ = 1;
    owner_.store(detail::this_thread(), std::memory_order_relaxed);
  }

  Lock lock_;
  std::atomic<const void*> owner_{nullptr};
  std::size_t depth_ = 0;
};

// The key of an object: its address, the same while it does not move.
template <class T>
std::uint64_t key_of(const T& object) noexcept {
  return holdup_key_of(std::addressof(object));
}

// The key of a text, by its contents. Not for texts that an attacker chooses to collide.
inline std::uint64_t key_of_text(std::string_view text) noexcept {
  return holdup_key_of_bytes(text.data(), text.size());
}

// A fixed number of locks for any number of objects: a key picks its lock by hash. 128 bytes per lock.
//
// Two keys may share a lock, so never take a second key while holding one: lock_many takes several at once and cannot deadlock with
// other calls of it. Not for a few long-lived objects: give each its lock.
class lock_table {
 public:
  // The lock of one key, until it goes out of scope.
  class [[nodiscard]] guard {
   public:
    guard(guard&& other) noexcept : table_(std::exchange(other.table_, nullptr)), key_(other.key_) {}
    guard& operator=(guard&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(key_, other.key_);
      return *this;
    }
    ~guard() { unlock(); }

    // False after a try that failed, or unlock().
    bool owns_lock() const noexcept { return table_ != nullptr; }
    explicit operator bool() const noexcept { return owns_lock(); }

    // Releases the lock now.
    void unlock() noexcept {
      if (auto* table = std::exchange(table_, nullptr)) {
        holdup_table_unlock(table, key_);
      }
    }

   private:
    friend class lock_table;
    guard(holdup_table_t* table, std::uint64_t key) noexcept : table_(table), key_(key) {}

    holdup_table_t* table_;
    std::uint64_t key_;
  };

  // The locks of several keys, until it goes out of scope.
  class [[nodiscard]] many_guard {
   public:
    many_guard(many_guard&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), slots_(std::move(other.slots_)) {}
    many_guard& operator=(many_guard&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(slots_, other.slots_);
      return *this;
    }
    ~many_guard() { unlock(); }

    // How many different locks are held: the keys, less those that share one.
    std::size_t locks() const noexcept { return table_ ? slots_.size() : 0; }

    // Releases the locks now.
    void unlock() noexcept {
      if (auto* table = std::exchange(table_, nullptr)) {
        holdup_table_unlock_many(table, slots_.data(), slots_.size());
      }
    }

   private:
    friend class lock_table;
    many_guard(holdup_table_t* table, const std::uint64_t* keys, std::size_t count) : table_(table), slots_(count) {
      slots_.resize(holdup_table_lock_many(table, keys, count, slots_.data()));
    }

    holdup_table_t* table_;
    std::vector<std::size_t> slots_;
  };

  // All locks of a table, until it goes out of scope.
  class [[nodiscard]] all_guard {
   public:
    all_guard(const all_guard&) = delete;
    all_guard& operator=(const all_guard&) = delete;
    ~all_guard() { holdup_table_unlock_all(table_); }

   private:
    friend class lock_table;
    explicit all_guard(holdup_table_t* table) noexcept : table_(table) { holdup_table_lock_all(table_); }

    holdup_table_t* table_;
  };

  // Throws std::invalid_argument if `locks` is 0 or above 1048576, std::bad_alloc if there is no memory. Under -fno-exceptions it
  // prints a message and aborts.
  explicit lock_table(std::size_t locks = 256) : table_(holdup_table_create(locks)) {
    if (table_ == nullptr) {
      detail::no_table(locks);
    }
  }
  lock_table(const lock_table&) = delete;
  lock_table& operator=(const lock_table&) = delete;
  ~lock_table() { holdup_table_destroy(table_); }

  // Waits for the key's lock.
  guard lock(std::uint64_t key) noexcept {
    holdup_table_lock(table_, key);
    return guard(table_, key);
  }

  // Takes the key's lock if that is possible at once; the guard tells whether it was.
  guard try_lock(std::uint64_t key) noexcept {
    return guard(holdup_table_try_lock(table_, key) ? table_ : nullptr, key);
  }

  // Takes the key's lock if that is possible within `time`; the guard tells whether it was.
  template <class Rep, class Period>
  guard try_lock_for(std::uint64_t key, const std::chrono::duration<Rep, Period>& time) noexcept {
    const bool taken = holdup_table_try_lock_for_ns(table_, key, detail::nanoseconds_up(time));
    return guard(taken ? table_ : nullptr, key);
  }

  // Waits for the locks of all keys, each lock once. Allocates one vector, and throws std::bad_alloc before it takes any lock.
  many_guard lock_many(const std::uint64_t* keys, std::size_t count) { return many_guard(table_, keys, count); }
  many_guard lock_many(std::initializer_list<std::uint64_t> keys) { return lock_many(keys.begin(), keys.size()); }
  many_guard lock_many(const std::vector<std::uint64_t>& keys) { return lock_many(keys.data(), keys.size()); }

  // Waits for all locks: for work that concerns every object.
  all_guard lock_all() noexcept { return all_guard(table_); }

  // How many locks there are.
  std::size_t locks() const noexcept { return holdup_table_locks(table_); }

  // Which lock a key meets, from 0: to see whether two share one.
  std::size_t slot(std::uint64_t key) const noexcept { return holdup_table_slot(table_, key); }

  // The table for functions of holdup.h.
  holdup_table_t* native_handle() noexcept { return table_; }

 private:
  holdup_table_t* table_;
};

// Lets at most N threads be active; the others sleep, first come, first served. 24 bytes.
//
// About as dear as a lock while it is open, a sleep and a wake-up when it is full. Not for short sections, and never to be entered
// while holding a lock that those inside need.
class gate {
 public:
  // A place inside, given back when it goes out of scope.
  class [[nodiscard]] pass {
   public:
    // Waits for a place.
    explicit pass(gate& entered) noexcept : gate_(entered) { gate_.enter(); }
    // The place that try_enter has taken.
    pass(gate& entered, std::adopt_lock_t) noexcept : gate_(entered) {}
    pass(const pass&) = delete;
    pass& operator=(const pass&) = delete;
    ~pass() { gate_.leave(); }

   private:
    gate& gate_;
  };

  // A gate for `limit` threads; 0 is taken as 1.
  constexpr explicit gate(std::uint32_t limit) noexcept : raw_ HOLDUP_GATE_INIT(limit == 0 ? 1u : limit) {}
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;

  // Waits for a place.
  void enter() noexcept { holdup_gate_enter(&raw_); }

  // Takes a place if one is free and nobody waits for it.
  [[nodiscard]] bool try_enter() noexcept { return holdup_gate_try_enter(&raw_); }

  // Gives the caller's place back.
  void leave() noexcept { holdup_gate_leave(&raw_); }

  // Changes the limit at once; lowered, it sends nobody out.
  void set_limit(std::uint32_t limit) noexcept { holdup_gate_set_limit(&raw_, limit); }
  std::uint32_t limit() const noexcept { return holdup_gate_limit(&raw_); }

  // How many threads are inside or wait: a moment's value.
  std::uint64_t present() const noexcept { return holdup_gate_present(&raw_); }

 private:
  holdup_gate_t raw_;
};

// A counter that many threads add to without meeting; 8 KiB. Adding is one atomic add on a line that other threads seldom touch;
// reading adds up 64 cells. Not for counters that are read as often as written, or must be exact while others add.
class sharded_counter {
 public:
  constexpr sharded_counter() noexcept = default;
  sharded_counter(const sharded_counter&) = delete;
  sharded_counter& operator=(const sharded_counter&) = delete;

  void add(std::int64_t amount) noexcept { holdup_counter_add(&raw_, amount); }
  void operator+=(std::int64_t amount) noexcept { add(amount); }
  void operator-=(std::int64_t amount) noexcept { add(static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(amount))); }
  void operator++() noexcept { add(1); }
  void operator--() noexcept { add(-1); }

  // The sum: exact once those who add have been joined.
  std::int64_t sum() const noexcept { return holdup_counter_sum(&raw_); }

  // Sets it to zero and returns what it held.
  std::int64_t take() noexcept { return holdup_counter_take(&raw_); }

 private:
  holdup_counter_t raw_ = HOLDUP_COUNTER_INIT;
};

// Claims on a range of indices, each index exactly once, by whichever thread asks:
//
//   holdup::chunks loop = holdup::chunks::fixed(0, n, 64);
//   // in every thread:
//   for (holdup::chunks::chunk part : loop)
//     for (std::uint64_t i : part) work(i);
//
// A claim is one atomic operation on a line that all threads share, so choose chunks that work for a microsecond at least. It carries
// no data: join the threads to see what they wrote. Not for bodies of equal, known length: split those up front.
class chunks {
 public:
  // Indices from `first` to `last - 1`; a range of them, and two numbers.
  struct chunk {
    std::uint64_t first;
    std::uint64_t last;

    class iterator {
     public:
      using iterator_category = std::input_iterator_tag;
      using value_type = std::uint64_t;
      using difference_type = std::ptrdiff_t;
      using pointer = const std::uint64_t*;
      using reference = std::uint64_t;

      constexpr explicit iterator(std::uint64_t at) noexcept : at_(at) {}
      constexpr std::uint64_t operator*() const noexcept { return at_; }
      constexpr iterator& operator++() noexcept {
        ++at_;
        return *this;
      }
      constexpr iterator operator++(int) noexcept { return iterator(at_++); }
      friend constexpr bool operator==(iterator a, iterator b) noexcept { return a.at_ == b.at_; }
      friend constexpr bool operator!=(iterator a, iterator b) noexcept { return a.at_ != b.at_; }

     private:
      std::uint64_t at_;
    };

    constexpr iterator begin() const noexcept { return iterator(first); }
    constexpr iterator end() const noexcept { return iterator(last); }
    constexpr std::uint64_t size() const noexcept { return last - first; }
  };

  // Claims chunk after chunk; the end is where none is left. Every thread has its own.
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = chunk;
    using difference_type = std::ptrdiff_t;
    using pointer = const chunk*;
    using reference = const chunk&;

    iterator() noexcept = default;
    explicit iterator(chunks& from) noexcept : from_(&from) { ++*this; }
    const chunk& operator*() const noexcept { return now_; }
    const chunk* operator->() const noexcept { return &now_; }
    iterator& operator++() noexcept {
      if (!from_->next(now_)) {
        from_ = nullptr;
      }
      return *this;
    }
    void operator++(int) noexcept { ++*this; }
    friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.from_ == b.from_; }
    friend bool operator!=(const iterator& a, const iterator& b) noexcept { return !(a == b); }

   private:
    chunks* from_ = nullptr;
    chunk now_{};
  };

  // Claims of `chunk` indices each on first..last-1; the last is shorter. 0 is taken as 1, a reversed range is empty.
  static chunks fixed(std::uint64_t first, std::uint64_t last, std::uint64_t chunk) noexcept {
    return chunks([&](holdup_chunks_t* raw) { holdup_chunks_init_fixed(raw, first, last, chunk); });
  }

  // Claims of a `threads`-th of what is left, at least `min_chunk`: large at first, small at the end, so that threads end together.
  static chunks guided(std::uint64_t first, std::uint64_t last, std::uint32_t threads, std::uint64_t min_chunk) noexcept {
    return chunks([&](holdup_chunks_t* raw) { holdup_chunks_init_guided(raw, first, last, threads, min_chunk); });
  }

  chunks(const chunks&) = delete;
  chunks& operator=(const chunks&) = delete;

  // Claims the next chunk; false if none is left.
  [[nodiscard]] bool next(chunk& claimed) noexcept { return holdup_chunks_next(&raw_, &claimed.first, &claimed.last); }

  iterator begin() noexcept { return iterator(*this); }
  iterator end() noexcept { return iterator(); }

 private:
  template <class Init>
  explicit chunks(Init init) noexcept {
    init(&raw_);
  }

  holdup_chunks_t raw_;
};

}  // namespace holdup

#endif  // HOLDUP_HPP
