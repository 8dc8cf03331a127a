/*
 * holdup_tsan.h: what ThreadSanitizer is told of holdup's locks. Included by holdup.h under -fsanitize=thread, never directly.
 *
 * Written by 'cargo xtask headers': do not edit.
 *
 * The library is not compiled with ThreadSanitizer, so it cannot see the atomics that order the sections. Each function is put
 * behind one that says so: a data race in your program is still found, the locks cause no false ones, and wrong use of a lock is
 * reported by ThreadSanitizer itself. A pointer to a function is one to the function that tells.
 */

#ifndef HOLDUP_TSAN_H
#define HOLDUP_TSAN_H

#include <sanitizer/tsan_interface.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline void holdup_tsan_adaptive_init(holdup_adaptive_t *lock) HOLDUP_NOEXCEPT {
  holdup_adaptive_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_adaptive_destroy(holdup_adaptive_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_adaptive_destroy(lock);
}

static inline void holdup_tsan_adaptive_lock(holdup_adaptive_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_adaptive_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_adaptive_try_lock(holdup_adaptive_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_adaptive_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_adaptive_unlock(holdup_adaptive_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_adaptive_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_adaptive_init holdup_tsan_adaptive_init
#define holdup_adaptive_destroy holdup_tsan_adaptive_destroy
#define holdup_adaptive_lock holdup_tsan_adaptive_lock
#define holdup_adaptive_try_lock holdup_tsan_adaptive_try_lock
#define holdup_adaptive_unlock holdup_tsan_adaptive_unlock

static inline bool holdup_tsan_adaptive_try_lock_for_ns(holdup_adaptive_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_adaptive_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_adaptive_try_lock_for_ns holdup_tsan_adaptive_try_lock_for_ns

static inline void holdup_tsan_tas_init(holdup_tas_t *lock) HOLDUP_NOEXCEPT {
  holdup_tas_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_tas_destroy(holdup_tas_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_tas_destroy(lock);
}

static inline void holdup_tsan_tas_lock(holdup_tas_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_tas_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_tas_try_lock(holdup_tas_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_tas_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_tas_unlock(holdup_tas_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_tas_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_tas_init holdup_tsan_tas_init
#define holdup_tas_destroy holdup_tsan_tas_destroy
#define holdup_tas_lock holdup_tsan_tas_lock
#define holdup_tas_try_lock holdup_tsan_tas_try_lock
#define holdup_tas_unlock holdup_tsan_tas_unlock

static inline bool holdup_tsan_tas_try_lock_for_ns(holdup_tas_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_tas_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_tas_try_lock_for_ns holdup_tsan_tas_try_lock_for_ns

static inline void holdup_tsan_ttas_init(holdup_ttas_t *lock) HOLDUP_NOEXCEPT {
  holdup_ttas_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_ttas_destroy(holdup_ttas_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_ttas_destroy(lock);
}

static inline void holdup_tsan_ttas_lock(holdup_ttas_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_ttas_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_ttas_try_lock(holdup_ttas_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_ttas_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_ttas_unlock(holdup_ttas_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_ttas_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_ttas_init holdup_tsan_ttas_init
#define holdup_ttas_destroy holdup_tsan_ttas_destroy
#define holdup_ttas_lock holdup_tsan_ttas_lock
#define holdup_ttas_try_lock holdup_tsan_ttas_try_lock
#define holdup_ttas_unlock holdup_tsan_ttas_unlock

static inline bool holdup_tsan_ttas_try_lock_for_ns(holdup_ttas_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_ttas_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_ttas_try_lock_for_ns holdup_tsan_ttas_try_lock_for_ns

static inline void holdup_tsan_ticket_init(holdup_ticket_t *lock) HOLDUP_NOEXCEPT {
  holdup_ticket_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_ticket_destroy(holdup_ticket_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_ticket_destroy(lock);
}

static inline void holdup_tsan_ticket_lock(holdup_ticket_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_ticket_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_ticket_try_lock(holdup_ticket_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_ticket_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_ticket_unlock(holdup_ticket_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_ticket_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_ticket_init holdup_tsan_ticket_init
#define holdup_ticket_destroy holdup_tsan_ticket_destroy
#define holdup_ticket_lock holdup_tsan_ticket_lock
#define holdup_ticket_try_lock holdup_tsan_ticket_try_lock
#define holdup_ticket_unlock holdup_tsan_ticket_unlock

static inline void holdup_tsan_ticket_spin_init(holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT {
  holdup_ticket_spin_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_ticket_spin_destroy(holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_ticket_spin_destroy(lock);
}

static inline void holdup_tsan_ticket_spin_lock(holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_ticket_spin_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_ticket_spin_try_lock(holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_ticket_spin_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_ticket_spin_unlock(holdup_ticket_spin_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_ticket_spin_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_ticket_spin_init holdup_tsan_ticket_spin_init
#define holdup_ticket_spin_destroy holdup_tsan_ticket_spin_destroy
#define holdup_ticket_spin_lock holdup_tsan_ticket_spin_lock
#define holdup_ticket_spin_try_lock holdup_tsan_ticket_spin_try_lock
#define holdup_ticket_spin_unlock holdup_tsan_ticket_spin_unlock

static inline void holdup_tsan_mcs_init(holdup_mcs_t *lock) HOLDUP_NOEXCEPT {
  holdup_mcs_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_mcs_destroy(holdup_mcs_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_mcs_destroy(lock);
}

static inline void holdup_tsan_mcs_lock(holdup_mcs_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_mcs_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_mcs_try_lock(holdup_mcs_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_mcs_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_mcs_unlock(holdup_mcs_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_mcs_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_mcs_init holdup_tsan_mcs_init
#define holdup_mcs_destroy holdup_tsan_mcs_destroy
#define holdup_mcs_lock holdup_tsan_mcs_lock
#define holdup_mcs_try_lock holdup_tsan_mcs_try_lock
#define holdup_mcs_unlock holdup_tsan_mcs_unlock

static inline void holdup_tsan_mcs_spin_init(holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT {
  holdup_mcs_spin_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_mcs_spin_destroy(holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_mcs_spin_destroy(lock);
}

static inline void holdup_tsan_mcs_spin_lock(holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_mcs_spin_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_mcs_spin_try_lock(holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_mcs_spin_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_mcs_spin_unlock(holdup_mcs_spin_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_mcs_spin_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_mcs_spin_init holdup_tsan_mcs_spin_init
#define holdup_mcs_spin_destroy holdup_tsan_mcs_spin_destroy
#define holdup_mcs_spin_lock holdup_tsan_mcs_spin_lock
#define holdup_mcs_spin_try_lock holdup_tsan_mcs_spin_try_lock
#define holdup_mcs_spin_unlock holdup_tsan_mcs_spin_unlock

static inline void holdup_tsan_clh_init(holdup_clh_t *lock) HOLDUP_NOEXCEPT {
  holdup_clh_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_clh_destroy(holdup_clh_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_clh_destroy(lock);
}

static inline void holdup_tsan_clh_lock(holdup_clh_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_clh_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_clh_try_lock(holdup_clh_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_clh_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_clh_unlock(holdup_clh_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_clh_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_clh_init holdup_tsan_clh_init
#define holdup_clh_destroy holdup_tsan_clh_destroy
#define holdup_clh_lock holdup_tsan_clh_lock
#define holdup_clh_try_lock holdup_tsan_clh_try_lock
#define holdup_clh_unlock holdup_tsan_clh_unlock

static inline void holdup_tsan_clh_spin_init(holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT {
  holdup_clh_spin_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_clh_spin_destroy(holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_clh_spin_destroy(lock);
}

static inline void holdup_tsan_clh_spin_lock(holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_clh_spin_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_clh_spin_try_lock(holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_clh_spin_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_clh_spin_unlock(holdup_clh_spin_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_clh_spin_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_clh_spin_init holdup_tsan_clh_spin_init
#define holdup_clh_spin_destroy holdup_tsan_clh_spin_destroy
#define holdup_clh_spin_lock holdup_tsan_clh_spin_lock
#define holdup_clh_spin_try_lock holdup_tsan_clh_spin_try_lock
#define holdup_clh_spin_unlock holdup_tsan_clh_spin_unlock

static inline void holdup_tsan_futex_init(holdup_futex_t *lock) HOLDUP_NOEXCEPT {
  holdup_futex_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_futex_destroy(holdup_futex_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_futex_destroy(lock);
}

static inline void holdup_tsan_futex_lock(holdup_futex_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_futex_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_futex_try_lock(holdup_futex_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_futex_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_futex_unlock(holdup_futex_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_futex_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_futex_init holdup_tsan_futex_init
#define holdup_futex_destroy holdup_tsan_futex_destroy
#define holdup_futex_lock holdup_tsan_futex_lock
#define holdup_futex_try_lock holdup_tsan_futex_try_lock
#define holdup_futex_unlock holdup_tsan_futex_unlock

static inline bool holdup_tsan_futex_try_lock_for_ns(holdup_futex_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_futex_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_futex_try_lock_for_ns holdup_tsan_futex_try_lock_for_ns

static inline void holdup_tsan_fair_init(holdup_fair_t *lock) HOLDUP_NOEXCEPT {
  holdup_fair_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_fair_destroy(holdup_fair_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_fair_destroy(lock);
}

static inline void holdup_tsan_fair_lock(holdup_fair_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_fair_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_fair_try_lock(holdup_fair_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_fair_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_fair_unlock(holdup_fair_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_fair_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_fair_init holdup_tsan_fair_init
#define holdup_fair_destroy holdup_tsan_fair_destroy
#define holdup_fair_lock holdup_tsan_fair_lock
#define holdup_fair_try_lock holdup_tsan_fair_try_lock
#define holdup_fair_unlock holdup_tsan_fair_unlock

static inline void holdup_tsan_eventfd_init(holdup_eventfd_t *lock) HOLDUP_NOEXCEPT {
  holdup_eventfd_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_eventfd_destroy(holdup_eventfd_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_eventfd_destroy(lock);
}

static inline void holdup_tsan_eventfd_lock(holdup_eventfd_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_eventfd_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_eventfd_try_lock(holdup_eventfd_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_eventfd_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_eventfd_unlock(holdup_eventfd_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_eventfd_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_eventfd_init holdup_tsan_eventfd_init
#define holdup_eventfd_destroy holdup_tsan_eventfd_destroy
#define holdup_eventfd_lock holdup_tsan_eventfd_lock
#define holdup_eventfd_try_lock holdup_tsan_eventfd_try_lock
#define holdup_eventfd_unlock holdup_tsan_eventfd_unlock

static inline bool holdup_tsan_eventfd_try_lock_for_ns(holdup_eventfd_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_eventfd_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_eventfd_try_lock_for_ns holdup_tsan_eventfd_try_lock_for_ns

static inline void holdup_tsan_eventfd_sem_init(holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT {
  holdup_eventfd_sem_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_eventfd_sem_destroy(holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_eventfd_sem_destroy(lock);
}

static inline void holdup_tsan_eventfd_sem_lock(holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_eventfd_sem_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_eventfd_sem_try_lock(holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_eventfd_sem_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_eventfd_sem_unlock(holdup_eventfd_sem_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_eventfd_sem_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_eventfd_sem_init holdup_tsan_eventfd_sem_init
#define holdup_eventfd_sem_destroy holdup_tsan_eventfd_sem_destroy
#define holdup_eventfd_sem_lock holdup_tsan_eventfd_sem_lock
#define holdup_eventfd_sem_try_lock holdup_tsan_eventfd_sem_try_lock
#define holdup_eventfd_sem_unlock holdup_tsan_eventfd_sem_unlock

static inline bool holdup_tsan_eventfd_sem_try_lock_for_ns(holdup_eventfd_sem_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_eventfd_sem_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_eventfd_sem_try_lock_for_ns holdup_tsan_eventfd_sem_try_lock_for_ns

static inline void holdup_tsan_sysv_sem_init(holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT {
  holdup_sysv_sem_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_sysv_sem_destroy(holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_sysv_sem_destroy(lock);
}

static inline void holdup_tsan_sysv_sem_lock(holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_sysv_sem_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_sysv_sem_try_lock(holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_sysv_sem_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_sysv_sem_unlock(holdup_sysv_sem_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_sysv_sem_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_sysv_sem_init holdup_tsan_sysv_sem_init
#define holdup_sysv_sem_destroy holdup_tsan_sysv_sem_destroy
#define holdup_sysv_sem_lock holdup_tsan_sysv_sem_lock
#define holdup_sysv_sem_try_lock holdup_tsan_sysv_sem_try_lock
#define holdup_sysv_sem_unlock holdup_tsan_sysv_sem_unlock

static inline bool holdup_tsan_sysv_sem_try_lock_for_ns(holdup_sysv_sem_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_sysv_sem_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_sysv_sem_try_lock_for_ns holdup_tsan_sysv_sem_try_lock_for_ns

static inline void holdup_tsan_futex_pi_init(holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT {
  holdup_futex_pi_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_futex_pi_destroy(holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_futex_pi_destroy(lock);
}

static inline void holdup_tsan_futex_pi_lock(holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_futex_pi_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_futex_pi_try_lock(holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_futex_pi_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_futex_pi_unlock(holdup_futex_pi_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_futex_pi_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_futex_pi_init holdup_tsan_futex_pi_init
#define holdup_futex_pi_destroy holdup_tsan_futex_pi_destroy
#define holdup_futex_pi_lock holdup_tsan_futex_pi_lock
#define holdup_futex_pi_try_lock holdup_tsan_futex_pi_try_lock
#define holdup_futex_pi_unlock holdup_tsan_futex_pi_unlock

static inline bool holdup_tsan_futex_pi_try_lock_for_ns(holdup_futex_pi_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_futex_pi_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_futex_pi_try_lock_for_ns holdup_tsan_futex_pi_try_lock_for_ns

static inline void holdup_tsan_pipe_init(holdup_pipe_t *lock) HOLDUP_NOEXCEPT {
  holdup_pipe_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_pipe_destroy(holdup_pipe_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_pipe_destroy(lock);
}

static inline void holdup_tsan_pipe_lock(holdup_pipe_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_pipe_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_pipe_try_lock(holdup_pipe_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_pipe_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_pipe_unlock(holdup_pipe_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_pipe_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_pipe_init holdup_tsan_pipe_init
#define holdup_pipe_destroy holdup_tsan_pipe_destroy
#define holdup_pipe_lock holdup_tsan_pipe_lock
#define holdup_pipe_try_lock holdup_tsan_pipe_try_lock
#define holdup_pipe_unlock holdup_tsan_pipe_unlock

static inline bool holdup_tsan_pipe_try_lock_for_ns(holdup_pipe_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_pipe_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_pipe_try_lock_for_ns holdup_tsan_pipe_try_lock_for_ns

static inline void holdup_tsan_rw_adaptive_init(holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT {
  holdup_rw_adaptive_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_rw_adaptive_destroy(holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_rw_adaptive_destroy(lock);
}

static inline void holdup_tsan_rw_adaptive_lock(holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_rw_adaptive_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_rw_adaptive_try_lock(holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_rw_adaptive_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_rw_adaptive_unlock(holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_rw_adaptive_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_rw_adaptive_init holdup_tsan_rw_adaptive_init
#define holdup_rw_adaptive_destroy holdup_tsan_rw_adaptive_destroy
#define holdup_rw_adaptive_lock holdup_tsan_rw_adaptive_lock
#define holdup_rw_adaptive_try_lock holdup_tsan_rw_adaptive_try_lock
#define holdup_rw_adaptive_unlock holdup_tsan_rw_adaptive_unlock

static inline bool holdup_tsan_rw_adaptive_try_lock_for_ns(holdup_rw_adaptive_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_rw_adaptive_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_rw_adaptive_try_lock_for_ns holdup_tsan_rw_adaptive_try_lock_for_ns

static inline void holdup_tsan_rw_adaptive_lock_shared(holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, __tsan_mutex_read_lock);
  holdup_rw_adaptive_lock_shared(lock);
  __tsan_mutex_post_lock(lock, __tsan_mutex_read_lock, 1);
}

static inline bool holdup_tsan_rw_adaptive_try_lock_shared(holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock);
  taken = holdup_rw_adaptive_try_lock_shared(lock);
  __tsan_mutex_post_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock | (taken ? 0 : __tsan_mutex_try_lock_failed), 1);
  return taken;
}

static inline bool holdup_tsan_rw_adaptive_try_lock_shared_for_ns(holdup_rw_adaptive_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock);
  taken = holdup_rw_adaptive_try_lock_shared_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock | (taken ? 0 : __tsan_mutex_try_lock_failed), 1);
  return taken;
}

static inline void holdup_tsan_rw_adaptive_unlock_shared(holdup_rw_adaptive_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, __tsan_mutex_read_lock);
  holdup_rw_adaptive_unlock_shared(lock);
  __tsan_mutex_post_unlock(lock, __tsan_mutex_read_lock);
}

#define holdup_rw_adaptive_lock_shared holdup_tsan_rw_adaptive_lock_shared
#define holdup_rw_adaptive_try_lock_shared holdup_tsan_rw_adaptive_try_lock_shared
#define holdup_rw_adaptive_try_lock_shared_for_ns holdup_tsan_rw_adaptive_try_lock_shared_for_ns
#define holdup_rw_adaptive_unlock_shared holdup_tsan_rw_adaptive_unlock_shared

static inline void holdup_tsan_rw_sharded_init(holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT {
  holdup_rw_sharded_init(lock);
  __tsan_mutex_create(lock, 0);
}

static inline void holdup_tsan_rw_sharded_destroy(holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_destroy(lock, 0);
  holdup_rw_sharded_destroy(lock);
}

static inline void holdup_tsan_rw_sharded_lock(holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, 0);
  holdup_rw_sharded_lock(lock);
  __tsan_mutex_post_lock(lock, 0, 1);
}

static inline bool holdup_tsan_rw_sharded_try_lock(holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_rw_sharded_try_lock(lock);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

static inline void holdup_tsan_rw_sharded_unlock(holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, 0);
  holdup_rw_sharded_unlock(lock);
  __tsan_mutex_post_unlock(lock, 0);
}

#define holdup_rw_sharded_init holdup_tsan_rw_sharded_init
#define holdup_rw_sharded_destroy holdup_tsan_rw_sharded_destroy
#define holdup_rw_sharded_lock holdup_tsan_rw_sharded_lock
#define holdup_rw_sharded_try_lock holdup_tsan_rw_sharded_try_lock
#define holdup_rw_sharded_unlock holdup_tsan_rw_sharded_unlock

static inline bool holdup_tsan_rw_sharded_try_lock_for_ns(holdup_rw_sharded_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock);
  taken = holdup_rw_sharded_try_lock_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, taken ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed, 1);
  return taken;
}

#define holdup_rw_sharded_try_lock_for_ns holdup_tsan_rw_sharded_try_lock_for_ns

static inline void holdup_tsan_rw_sharded_lock_shared(holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_lock(lock, __tsan_mutex_read_lock);
  holdup_rw_sharded_lock_shared(lock);
  __tsan_mutex_post_lock(lock, __tsan_mutex_read_lock, 1);
}

static inline bool holdup_tsan_rw_sharded_try_lock_shared(holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock);
  taken = holdup_rw_sharded_try_lock_shared(lock);
  __tsan_mutex_post_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock | (taken ? 0 : __tsan_mutex_try_lock_failed), 1);
  return taken;
}

static inline bool holdup_tsan_rw_sharded_try_lock_shared_for_ns(holdup_rw_sharded_t *lock, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  bool taken;
  __tsan_mutex_pre_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock);
  taken = holdup_rw_sharded_try_lock_shared_for_ns(lock, timeout_ns);
  __tsan_mutex_post_lock(lock, __tsan_mutex_read_lock | __tsan_mutex_try_lock | (taken ? 0 : __tsan_mutex_try_lock_failed), 1);
  return taken;
}

static inline void holdup_tsan_rw_sharded_unlock_shared(holdup_rw_sharded_t *lock) HOLDUP_NOEXCEPT {
  __tsan_mutex_pre_unlock(lock, __tsan_mutex_read_lock);
  holdup_rw_sharded_unlock_shared(lock);
  __tsan_mutex_post_unlock(lock, __tsan_mutex_read_lock);
}

#define holdup_rw_sharded_lock_shared holdup_tsan_rw_sharded_lock_shared
#define holdup_rw_sharded_try_lock_shared holdup_tsan_rw_sharded_try_lock_shared
#define holdup_rw_sharded_try_lock_shared_for_ns holdup_tsan_rw_sharded_try_lock_shared_for_ns
#define holdup_rw_sharded_unlock_shared holdup_tsan_rw_sharded_unlock_shared

static inline void holdup_tsan_gate_enter(holdup_gate_t *gate) HOLDUP_NOEXCEPT {
  holdup_gate_enter(gate);
  __tsan_acquire(gate);
}

static inline bool holdup_tsan_gate_try_enter(holdup_gate_t *gate) HOLDUP_NOEXCEPT {
  const bool inside = holdup_gate_try_enter(gate);
  if (inside) {
    __tsan_acquire(gate);
  }
  return inside;
}

static inline void holdup_tsan_gate_leave(holdup_gate_t *gate) HOLDUP_NOEXCEPT {
  __tsan_release(gate);
  holdup_gate_leave(gate);
}

#define holdup_gate_enter holdup_tsan_gate_enter
#define holdup_gate_try_enter holdup_tsan_gate_try_enter
#define holdup_gate_leave holdup_tsan_gate_leave

static inline void holdup_tsan_table_lock(holdup_table_t *table, uint64_t key) HOLDUP_NOEXCEPT {
  holdup_table_lock(table, key);
  __tsan_acquire(holdup_table_address(table, holdup_table_slot(table, key)));
}

static inline bool holdup_tsan_table_try_lock(holdup_table_t *table, uint64_t key) HOLDUP_NOEXCEPT {
  const bool taken = holdup_table_try_lock(table, key);
  if (taken) {
    __tsan_acquire(holdup_table_address(table, holdup_table_slot(table, key)));
  }
  return taken;
}

static inline bool holdup_tsan_table_try_lock_for_ns(holdup_table_t *table, uint64_t key, uint64_t timeout_ns) HOLDUP_NOEXCEPT {
  const bool taken = holdup_table_try_lock_for_ns(table, key, timeout_ns);
  if (taken) {
    __tsan_acquire(holdup_table_address(table, holdup_table_slot(table, key)));
  }
  return taken;
}

static inline void holdup_tsan_table_unlock(holdup_table_t *table, uint64_t key) HOLDUP_NOEXCEPT {
  __tsan_release(holdup_table_address(table, holdup_table_slot(table, key)));
  holdup_table_unlock(table, key);
}

static inline size_t holdup_tsan_table_lock_many(holdup_table_t *table, const uint64_t *keys, size_t count,
                                                 size_t *slots) HOLDUP_NOEXCEPT {
  const size_t taken = holdup_table_lock_many(table, keys, count, slots);
  size_t i;
  for (i = 0; i < taken; i++) {
    __tsan_acquire(holdup_table_address(table, slots[i]));
  }
  return taken;
}

static inline void holdup_tsan_table_unlock_many(holdup_table_t *table, const size_t *slots, size_t count) HOLDUP_NOEXCEPT {
  size_t i;
  for (i = 0; i < count; i++) {
    __tsan_release(holdup_table_address(table, slots[i]));
  }
  holdup_table_unlock_many(table, slots, count);
}

static inline void holdup_tsan_table_lock_all(holdup_table_t *table) HOLDUP_NOEXCEPT {
  size_t i;
  holdup_table_lock_all(table);
  for (i = 0; i < holdup_table_locks(table); i++) {
    __tsan_acquire(holdup_table_address(table, i));
  }
}

static inline void holdup_tsan_table_unlock_all(holdup_table_t *table) HOLDUP_NOEXCEPT {
  size_t i;
  for (i = 0; i < holdup_table_locks(table); i++) {
    __tsan_release(holdup_table_address(table, i));
  }
  holdup_table_unlock_all(table);
}

#define holdup_table_lock holdup_tsan_table_lock
#define holdup_table_try_lock holdup_tsan_table_try_lock
#define holdup_table_try_lock_for_ns holdup_tsan_table_try_lock_for_ns
#define holdup_table_unlock holdup_tsan_table_unlock
#define holdup_table_lock_many holdup_tsan_table_lock_many
#define holdup_table_unlock_many holdup_tsan_table_unlock_many
#define holdup_table_lock_all holdup_tsan_table_lock_all
#define holdup_table_unlock_all holdup_tsan_table_unlock_all

#ifdef __cplusplus
}
#endif

#endif /* HOLDUP_TSAN_H */
